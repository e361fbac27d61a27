"""The lab: a leaf-spine fabric of network namespaces on one machine, from the topology file the controller reads."""
