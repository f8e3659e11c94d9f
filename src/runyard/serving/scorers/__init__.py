"""Models that are served without an entry script: scikit-learn, ONNX, TensorFlow, MLflow.

May enter: `serving/worker`. Loads: each module in replicas of that framework; its library is imported there.
"""
