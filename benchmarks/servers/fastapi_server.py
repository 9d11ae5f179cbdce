"""FastAPI as in its documentation: a pydantic body, an async handler. python fastapi_server.py PORT"""

import sys

import uvicorn
from fastapi import FastAPI
from network import compute_class
from pydantic import BaseModel


class PredictRequest(BaseModel):
    features: list[float]


class PredictResponse(BaseModel):
    label: int


app = FastAPI()


@app.post("/predict")
async def predict(request: PredictRequest) -> PredictResponse:
    return PredictResponse(label=compute_class(request.features))


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="error")
