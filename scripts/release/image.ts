import manifest from '../../package.json' with { type: 'json' }
import { type Archiver, addDirectories, concat, type Entry } from './archives.ts'

const { version, license, description } = manifest

/** The image of one architecture: the program, and the C library that it needs. */
export interface Platform {
  /** As Debian calls it, and OCI too. */
  architecture: string
  program: Entry
  libraries: Entry[]
}

interface Blob {
  mediaType: string
  digest: string
  size: number
  annotations?: Record<string, string>
}

const MEDIA = 'application/vnd.oci.image'
/** As in the Dockerfile. */
const USER = 10001

/**
 * Renders an image of all platforms as an OCI layout in a tar archive, which skopeo, podman and
 * docker load. It has no shell: nothing but the program, its C library and a directory for data.
 */
export function renderImage(
  archiver: Archiver,
  commit: string,
  platforms: Platform[],
): [name: string, bytes: Uint8Array] {
  const blobs = new Map<string, Uint8Array>()
  const add = (kind: string, content: Uint8Array): Blob => {
    const digest = `sha256:${Bun.SHA256.hash(content, 'hex')}`
    blobs.set(toPath(digest), content)
    return { mediaType: `${MEDIA}.${kind}`, digest, size: content.length }
  }
  const created = new Date(archiver.seconds * 1000).toISOString()
  const labels = {
    'org.opencontainers.image.title': 'gateway',
    'org.opencontainers.image.description': description,
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.revision': commit,
    'org.opencontainers.image.licenses': license,
    'org.opencontainers.image.created': created,
  }
  const manifests = platforms.map(({ architecture, program, libraries }) => {
    const layers = [listSystem(libraries), listProgram(program)].map(entries =>
      archiver.tar(addDirectories(entries)),
    )
    const config = {
      ...{ created, architecture, os: 'linux', config: { ...CONFIG, Labels: labels } },
      rootfs: {
        type: 'layers',
        diff_ids: layers.map(pieces => `sha256:${Bun.SHA256.hash(concat(...pieces), 'hex')}`),
      },
    }
    const content = {
      ...{ schemaVersion: 2, mediaType: `${MEDIA}.manifest.v1+json` },
      config: add('config.v1+json', toJson(config)),
      layers: layers.map(pieces => add('layer.v1.tar+gzip', archiver.gzip(pieces))),
      annotations: labels,
    }
    const blob = add('manifest.v1+json', toJson(content))
    return { content, blob: { ...blob, platform: { architecture, os: 'linux' } } }
  })
  const all = add('index.v1+json', toJson(toIndex(manifests.map(({ blob }) => blob))))
  const names = {
    'io.containerd.image.name': 'docker.io/library/gateway:latest',
    'org.opencontainers.image.ref.name': version,
  }
  const files = {
    'oci-layout': toJson({ imageLayoutVersion: '1.0.0' }),
    'index.json': toJson(toIndex([{ ...all, annotations: names }])),
    'manifest.json': toJson(manifests.map(({ content, blob }) => toDocker(content, blob.platform))),
    ...Object.fromEntries(blobs),
  }
  const entries = Object.entries(files).map(([path, content]) => ({ path, content }))
  return [`gateway-${version}-oci.tar`, concat(...archiver.tar(addDirectories(entries)))]
}

/** Describes an image as docker does where it keeps images of one platform, and reads no layout. */
const toDocker = (
  { config, layers }: { config: Blob; layers: Blob[] },
  { architecture }: { architecture: string },
) => ({
  Config: toPath(config.digest),
  RepoTags: [
    `gateway:${version}-${architecture}`,
    ...(architecture === 'amd64' ? ['gateway:latest'] : []),
  ],
  Layers: layers.map(({ digest }) => toPath(digest)),
})

const toPath = (digest: string) => `blobs/${digest.replace(':', '/')}`

const toJson = (value: object) => Buffer.from(JSON.stringify(value))

const toIndex = (manifests: Blob[]) => ({
  ...{ schemaVersion: 2, mediaType: `${MEDIA}.index.v1+json` },
  manifests,
})

const CONFIG = {
  User: `${USER}:${USER}`,
  ExposedPorts: { '8080/tcp': {} },
  Env: ['PATH=/usr/local/bin', 'GATEWAY_DATA=/data', 'GATEWAY_HOST=0.0.0.0'],
  Entrypoint: ['gateway'],
  Cmd: ['serve', '--log', 'json'],
  Volumes: { '/data': {} },
  StopSignal: 'SIGTERM',
}

const listSystem = (libraries: Entry[]): Entry[] => [
  ...libraries,
  { path: 'etc/passwd', content: Buffer.from(`gateway:x:${USER}:${USER}::/data:/nonexistent\n`) },
  { path: 'etc/group', content: Buffer.from(`gateway:x:${USER}:\n`) },
  { path: 'tmp/', mode: 0o1777 },
]

const listProgram = (program: Entry): Entry[] => [
  { ...program, path: 'usr/local/bin/gateway' },
  { path: 'data/', mode: 0o700, owner: USER },
]
