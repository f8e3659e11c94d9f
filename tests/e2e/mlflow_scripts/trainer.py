"""Hugging Face's Trainer with a tiny model made from its configuration; the argument is `report_to`."""

import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Rows(torch.utils.data.Dataset):
    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(1)
        self.words = torch.randint(0, 50, (64, 8), generator=draw)

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, at: int) -> dict:
        return {"input_ids": self.words[at], "labels": self.words[at].sum() % 2}


set_seed(7)
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=2
)
arguments = TrainingArguments(
    "checkpoints",
    report_to=[sys.argv[1]],
    max_steps=8,
    logging_steps=2,
    eval_strategy="steps",
    eval_steps=4,
    save_steps=8,
    per_device_train_batch_size=8,
    use_cpu=True,
    disable_tqdm=True,
    seed=7,
)
trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=Rows(), eval_dataset=Rows())
trainer.train()
