"""The one error people see: what happened, and the cure."""


class LabError(Exception):
    def __init__(self, what, cure=""):
        super().__init__(what)
        self.what = what
        self.cure = cure

    def __str__(self):
        return f"{self.what}\n  {self.cure}" if self.cure else self.what
