"""What runs an evaluation: its plan, the stages that rows pass, and what they are given."""
