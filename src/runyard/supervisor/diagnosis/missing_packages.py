"""Which package holds a module that could not be imported."""

from __future__ import annotations

# Import names whose package has another name.
PACKAGES = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "Crypto": "pycryptodome",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "fitz": "pymupdf",
    "git": "gitpython",
    "google.protobuf": "protobuf",
    "jwt": "pyjwt",
    "MySQLdb": "mysqlclient",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "psycopg2": "psycopg2-binary",
    "pytorch_lightning": "pytorch-lightning",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "skopt": "scikit-optimize",
    "yaml": "pyyaml",
}


def explain_missing(module: str) -> str:
    """Say which package holds a module that could not be imported, and how to add it."""
    top = module.split(".")[0]
    package = PACKAGES.get(module) or PACKAGES.get(top) or top.replace("_", "-")
    return (
        f"The module `{module}` is not installed in the run's environment. Add the package `{package}`: "
        f"`pip install {package}` into that interpreter, or "
        f"`environment.python.conda_dependencies.add_pip_package('{package}')`."
    )
