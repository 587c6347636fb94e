"""What tests and benchmarks share: seeded data, hand-made arguments of every op, and exact comparison.

``datasets``   ground truths and detections at the scale of COCO val2017, Objects365 and LVIS
``formats``    such a dataset as JSON files, objects, arrays and tensors
``scenes``     small random batches of boxes with ties, crowds and empty images
``registry``   one row per op: arguments that decide parity, and arguments at scale
``parity``     the first difference between two results, to the bit
``hostile_replies``  replies of a judge that are made to take long
``prepare``    what must happen before other imports: import it first
"""
