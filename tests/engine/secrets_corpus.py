"""Examples for redaction: what must be hidden, and what must stay readable to the letter.

Tokens are put together here, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

SECRET = "Hunter2-horse"
_MIXED = "a1B2c3D4e5F6g7H8i9J0"
_HEX = "0123456789abcdef"

# By name: each is tried as `--x v`, `--x=v`, `X=v program` and as a variable.
SECRET_NAMES = [
    "password", "db-password", "db_password", "dbPassword", "PGPASSWORD", "MYSQL_PWD", "MYSQL_ROOT_PASSWORD",
    "REDIS_PASS", "db-pass", "SMTP_PASSWORD_PROD", "PASSWORD2", "passphrase", "ssh-passphrase", "secret",
    "client-secret", "CLIENT_SECRET", "clientsecret", "AWS_SECRET_ACCESS_KEY", "aws-secret-access-key", "api-key",
    "api_key", "apiKey", "OPENAI_API_KEY", "API_KEY_2", "WANDB_API_KEY", "STORAGE_KEY", "account-key", "AccountKey",
    "ENCRYPTION_KEY", "signing-key", "subscription-key", "token", "hf_token", "HF_TOKEN", "access-token",
    "accessToken", "GITHUB_TOKEN", "auth-token", "VAULT_TOKEN", "TOKEN_PROD", "authorization", "GITHUB_PAT",
    "AZURE_DEVOPS_PAT", "pat", "SENTRY_DSN", "REPORTING_DSN", "credentials", "connection-string",
    "AZURE_STORAGE_CONNECTION_STRING", "sas", "sas-token", "cookie", "registry-token", "MY_DB_PASS",
]  # fmt: skip

# By form: each is tried as the value of a harmless option and variable, and in the middle of a text.
SECRET_VALUES = {
    "ours-user": "ryu_" + _HEX * 4,
    "ours-server": "ryt_" + _HEX * 4,
    "ours-run": "ryr_" + _HEX * 4,
    "github": "ghp_" + _MIXED * 2,
    "github-fine": "github_pat_" + _MIXED * 3,
    "gitlab": "glpat-" + _MIXED,
    "huggingface": "hf_" + _MIXED,
    "openai": "sk-" + "proj-" + _MIXED * 2,
    "anthropic": "sk-" + "ant-api03-" + _MIXED * 2,
    "stripe": "sk_" + "live_" + _MIXED,
    "slack": "xox" + "b-123456789012-" + _MIXED,
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws-session": "ASIA" + "IOSFODNN7EXAMPLE",
    "google": "AIza" + "S" * 35,
    "google-oauth": "ya29." + _MIXED,
    "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + _MIXED,
    "npm": "npm_" + _MIXED * 2,
    "databricks": "dapi" + _HEX * 2,
    "sendgrid": "SG." + _MIXED + "." + _MIXED,
    "vault": "hvs." + _MIXED,
    "nvidia": "nvapi-" + _MIXED,
    "entra": "abc8Q~" + _MIXED + "x" * 14,
    "telegram": "123456789:AA" + _MIXED + "x" * 13,
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + "c2lnbmF0dXJl",
    "private-key": "-----BEGIN " + "PRIVATE KEY-----\nMIIEvQ" + _MIXED + "\n-----END " + "PRIVATE KEY-----",
}

# Whole command lines, and what of them must not be seen.
SECRET_ARGUMENTS = [
    (["--db-url", f"postgres://user:{SECRET}@db.example:5432/x"], SECRET),
    ([f"--db-url=postgresql+psycopg://user:{SECRET}@db.example/x?sslmode=require"], SECRET),
    ([f"--url=redis://:{SECRET}@cache:6379/0"], SECRET),
    (["--repo", f"https://{SECRET}@git.example/x.git"], SECRET),
    (["--index", f"https://u:{SECRET}@pypi.example/simple"], SECRET),
    (["--db", f"postgres://u:p@{SECRET}/w@host/db"], SECRET),
    (["--storage", f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}==;EndpointSuffix=x"], SECRET),
    (["--bus", f"Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey={SECRET}="], SECRET),
    (["--blob", f"BlobEndpoint=https://a/;SharedAccessSignature=sv=2020&sig={SECRET}"], SECRET),
    (["--blob-url", f"https://a.blob.example/c?sv=2022&se=2030&sig={SECRET}%3D"], SECRET),
    (["--maps", f"https://maps.example/api?q=x&key={SECRET}{SECRET}"], SECRET),
    (["--dsn-parts", f"host=db user=me password={SECRET} dbname=x"], SECRET),
    (["-H", f"Authorization: Bearer {SECRET}"], SECRET),
    (["-H", f"X-Api-Key: {SECRET}"], SECRET),
    (["--header", f"Cookie: session={SECRET}"], SECRET),
    (["--config", f'{{"api_key": "{SECRET}", "lr": 0.1}}'], SECRET),
    ([f"db.password={SECRET}"], SECRET),
    ([f"+trainer.api_key={SECRET}"], SECRET),
    (["-u", f"ada:{SECRET}"], SECRET),
    (["--user", f"ada:{SECRET}"], SECRET),
    (["--passwords", SECRET, SECRET, "--lr", "1"], SECRET),
    (["-c", f"PASSWORD={SECRET} python t.py"], SECRET),
    (["--auth", f"ada:{SECRET}"], SECRET),
    (["--key", "A1b2C3d4E5f6G7h8I9j0"], "A1b2C3d4E5f6G7h8I9j0"),
]
SECRET_COMMANDS = [
    (f"PASSWORD={SECRET} python t.py", SECRET),
    (f"export DB_PASS={SECRET}; python t.py --lr 1", SECRET),
    (f"env A=1 GITHUB_PAT='{SECRET}' python t.py", SECRET),
    (f"curl -u ada:{SECRET} https://x.example/", SECRET),
    (f"curl -H 'Authorization: Bearer {SECRET}' https://x.example/ && python t.py", SECRET),
    (f'curl -H "Authorization: Basic {SECRET}" https://x.example/', SECRET),
    (f"wget https://ada:{SECRET}@x.example/data.zip", SECRET),
    (f"git clone https://{SECRET}@git.example/x.git", SECRET),
    (f"pip install --index-url https://u:{SECRET}@pypi.example/simple x", SECRET),
    (f"mysql -p{SECRET} -e 'select 1'", SECRET),
    (f"sshpass -p {SECRET} ssh host", SECRET),
    (f"docker login -u ada -p {SECRET} r.example", SECRET),
    (f"docker run -e DB_PASSWORD={SECRET} image", SECRET),
    (f'bash -c "TOKEN={SECRET} python t.py"', SECRET),
    (f"python t.py --password '{SECRET} with spaces' --lr 0.1", SECRET),
    (f'python t.py --password "{SECRET}\\" quoted"', SECRET),
    (f"python t.py --authorization {SECRET}", SECRET),
    (f"echo {SECRET} && redis-cli -a {SECRET}x ping", SECRET + "x"),
    (f"huggingface-cli login --token {SECRET}", SECRET),
    (f"psql 'host=db password={SECRET}'", SECRET),
]
SECRET_VARIABLES = [
    ("DATABASE_URL", f"postgres://u:{SECRET}@db/x", "postgres://u:********@db/x"),
    ("PIP_INDEX_URL", f"https://u:{SECRET}@pypi.example/simple", "https://u:********@pypi.example/simple"),
    ("PIP_EXTRA_INDEX_URL", f"https://a.example/simple https://u:{SECRET}@b.example/simple", None),
    ("HTTPS_PROXY", f"http://u:{SECRET}@proxy:3128", "http://u:********@proxy:3128"),
    ("MONGO", f"mongodb+srv://u:{SECRET}@c.example/?retryWrites=true", None),
    ("EXTRA", f"--password {SECRET}", "--password ********"),
    ("SLACK_WEBHOOK", f"https://hooks.slack.com/services/T0/B0/{SECRET}", None),
]

# Each as `--x v`, `--x=v`, `X=v program` and as a variable: nothing changes.
INNOCENT = [
    ("key-dim", "64"), ("token-limit", "512"), ("max-tokens", "2048"), ("max_new_tokens", "128"),
    ("tokenizer", "bert-base-uncased"), ("tokenizer_path", "/data/tok.json"), ("pad_token", "<pad>"),
    ("hub_token", "<HUB_TOKEN>"),
    ("mask-token", "[MASK]"), ("bos_token", "<s>"), ("eos-token", "</s>"), ("num-key-value-heads", "8"),
    ("PASSAGE", "the-quick-brown-fox"), ("MONKEY", "see-monkey-do"), ("KEYBOARD", "de"), ("hotkey", "ctrl-c"),
    ("author", "Ada Lovelace"), ("authority", "login.example"), ("commit", _HEX * 2 + "01234567"),
    ("run-id", "123e4567-e89b-12d3-a456-426614174000"), ("sha256", _HEX * 4), ("checkpoint", "/data/ckpt/step-1000.pt"),
    ("data", "s3://bucket/some/key/file.parquet"), ("output", "./outputs/model_v2.bin"), ("lr", "1e-4"),
    ("secret-name", "db-password"), ("password-file", "/run/secrets/db"), ("passes", "3"), ("num-pass", "2"),
    ("low_pass", "0.5"), ("two-pass", "true"), ("compass", "north"), ("bypass", "cache"), ("key", "128"),
    ("sort-key", "created_at"), ("partition_key", "customer"), ("primary-key", "id"), ("public-key", "id.pub"),
    ("ssh-key", "~/.ssh/id_ed25519"), ("credentials", "/secrets/sa.json"), ("use-auth", "true"), ("auth", "none"),
    ("password", "$DB_PASSWORD"), ("token", "${HF_TOKEN}"), ("ask-password", "false"), ("image", "python:3.11-slim"),
    ("url", "https://example.org/a/b?x=1&y=2"), ("remote", "git@github.com:org/repo.git"),
    ("repo", "ssh://git@github.com/org/repo.git"), ("endpoint", "http://127.0.0.1:8080/v1"),
    ("container", "abfss://data@account.dfs.example/path"), ("model", "gpt2-medium-v1.5"), ("dataset", "squad_v2"),
    ("prompt", "Translate the password policy to German"), ("schedule", "0 3 * * *"),
    ("optimizer", "adamw_torch_fused"),
    ("task-name", "sk-learn"), ("sklearn-model", "sk-learn_pipeline"), ("wandb-project", "hf_models"),
    ("experiment", "apikeyless-2024-10-11"), ("email", "ada@example.org"), ("time", "12:30:00"),
    ("ratio", "16:9"), ("seed", "1234567890123456"), ("layers", "[1, 2, 3]"), ("config", '{"lr": 0.1, "key_dim": 64}'),
    ("vocab-token-count", "32000"), ("secrets-backend", "vault"), ("cookie-cutter", "template"),
    ("PATH", "/usr/bin:/bin"),
    ("CUDA_VISIBLE_DEVICES", "0,1"), ("OMP_NUM_THREADS", "4"), ("s3_key", "train/part-0001.parquet"),
    ("metric_key", "val/accuracy"), ("group-key", "site"), ("page", "https://example.org/?key=accuracy&code=42"),
]  # fmt: skip
INNOCENT_COMMANDS = [
    "python train.py --lr 0.1 --max-tokens 512 && echo done | tee out.txt",
    "torchrun --nproc_per_node=4 train.py --tokenizer bert-base --key-dim 64",
    "docker run -u 1000:1000 -p 8080:80 -e LR=0.1 image",
    "git checkout " + _HEX * 2 + "01234567 && make -j4",
    "python -m pip install 'torch==2.1.0+cu118' --extra-index-url https://download.pytorch.org/whl/cu118",
    "for i in 1 2 3; do python t.py --seed $i; done",
    "curl -L https://example.org/data.zip -o data.zip",
    'python t.py --text "it\'s a token of love" --bearer none',
    "echo basic training && python t.py",
    "mpirun -np 4 -x NCCL_DEBUG=INFO python t.py",
]
