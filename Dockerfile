# syntax=docker/dockerfile:1
# The service in an image. What is installed comes from requirements.txt, by hash; deploy/image.sh has the steps.
ARG PYTHON_VERSION=3.12
FROM python:${PYTHON_VERSION}-slim AS build
WORKDIR /src
COPY pyproject.toml requirements.txt ./
COPY deploy/image.sh deploy/packages.py deploy/
RUN sh deploy/image.sh /opt/freepull packages
COPY README.md LICENSE ./
COPY src src
RUN sh deploy/image.sh /opt/freepull freepull
# Machine code for any processor of the architecture, so that it is used wherever the image runs.
ARG CPU=generic
ENV NUMBA_CPU_NAME=${CPU} NUMBA_CPU_FEATURES=""
RUN sh deploy/image.sh /opt/freepull kernels

FROM python:${PYTHON_VERSION}-slim
ARG CPU=generic
RUN groupadd --system --gid 10001 freepull \
  && useradd --system --uid 10001 --gid freepull --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin freepull \
  && install --directory --owner freepull --group freepull --mode 700 /var/lib/freepull
COPY --from=build /opt/freepull /opt/freepull
ENV PATH=/opt/freepull/bin:$PATH \
  PYTHONDONTWRITEBYTECODE=1 \
  PYTHONUNBUFFERED=1 \
  NUMBA_CACHE_DIR=/opt/freepull/kernels \
  NUMBA_CPU_NAME=${CPU} \
  NUMBA_CPU_FEATURES="" \
  FREEPULL_HOST=0.0.0.0 \
  FREEPULL_STORE=sqlite:////var/lib/freepull/freepull.db
USER 10001:10001
WORKDIR /var/lib/freepull
VOLUME /var/lib/freepull
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as ask; ask.urlopen(f'http://127.0.0.1:{os.environ.get(\"FREEPULL_PORT\", 8000)}/readyz', timeout=4)"]
ENTRYPOINT ["freepull"]
CMD ["serve"]
