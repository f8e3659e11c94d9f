"""Train a tiny transformer with Hugging Face's Trainer. Model and data are made here; nothing is downloaded."""

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

from runyard.integrations import HuggingFaceCallback

set_seed(0)
words = torch.randint(2, 50, (256, 8))
labels = (words[:, 0] > 25).long()  # the first word decides
data = [
    {"input_ids": row, "attention_mask": torch.ones(8, dtype=torch.long), "labels": label}
    for row, label in zip(words, labels)
]

config = BertConfig(
    vocab_size=50,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=8,
    num_labels=2,
)
arguments = TrainingArguments(
    output_dir="outputs/checkpoints",
    num_train_epochs=10,
    per_device_train_batch_size=16,
    learning_rate=5e-3,
    logging_steps=16,
    eval_strategy="epoch",
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    seed=0,
)


def accuracy(predicted):
    return {"accuracy": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


trainer = Trainer(
    model=BertForSequenceClassification(config),
    args=arguments,
    train_dataset=data[:192],
    eval_dataset=data[192:],
    compute_metrics=accuracy,
    callbacks=[HuggingFaceCallback()],
)
trainer.train()
trainer.save_model("outputs/model")
