# syntax=docker/dockerfile:1

# 1. the page
FROM node:22-slim AS page
WORKDIR /src/frontend
COPY frontend/package.json frontend/package-lock.json frontend/.npmrc ./
RUN npm ci --no-fund --no-audit
COPY frontend ./
RUN npm run build

# 2. the wheels
FROM python:3.12-slim AS wheel
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements/build.txt ./
RUN pip install --no-deps --require-hashes -r build.txt
COPY pyproject.toml README.md LICENSE ./
COPY online ./online
COPY packages ./packages
COPY data ./data
COPY --from=page /src/online/api/static ./online/api/static
RUN python -m hatchling build -t wheel -d /wheels \
    && cd packages/online-federated && python -m hatchling build -t wheel -d /wheels

# 3. the service
FROM python:3.12-slim
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1 XDG_CACHE_HOME=/home/online/.cache
RUN useradd --create-home --uid 10001 online && mkdir /state && chown online /state
WORKDIR /src
# torch comes first, so that no other package selects another version. By default pip installs it with CUDA.
# For a small image without CUDA: --build-arg TORCH_INDEX=<the index of torch's CPU builds>; those files have no hashes here.
# Every other file must have a hash of requirements/, which `make lock` writes.
ARG TORCH_INDEX=""
COPY requirements ./requirements
RUN if [ -z "$TORCH_INDEX" ]; then \
        pip install --no-deps --require-hashes -r requirements/torch.txt; \
    else \
        pip install --no-deps --index-url "$TORCH_INDEX" "$(grep -o '^torch==[^ ]*' requirements/torch.txt)"; \
    fi
RUN pip install --no-deps --require-hashes -r requirements/service.txt
COPY --from=wheel /wheels /wheels
RUN pip install --no-deps --no-index /wheels/*.whl
USER online
VOLUME /state
EXPOSE 8000 8500
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
ENTRYPOINT ["online"]
CMD ["serve", "--host", "0.0.0.0", "--state", "/state"]
