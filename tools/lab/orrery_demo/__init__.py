"""tools/demo: the same unmodified program under plain ECMP and under Orrery, side by side, on real packets."""
