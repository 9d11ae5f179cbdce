"""FastAPI as its documentation has it: a pydantic body, an async handler. python fastapi_server.py PORT"""

import sys

import uvicorn
from fastapi import FastAPI
from network import label_of
from pydantic import BaseModel


class Asked(BaseModel):
    features: list[float]


class Told(BaseModel):
    label: int


app = FastAPI()


@app.post("/predict")
async def predict(asked: Asked) -> Told:
    return Told(label=label_of(asked.features))


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="error")
