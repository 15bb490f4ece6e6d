import { describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Validator } from '@cfworker/json-schema'
import manifest from '../package.json' with { type: 'json' }
import { LARGEST_BODY } from '../src/base/schema-builders.ts'
import { Config, createDefaultConfig, parseConfig } from '../src/config.ts'
import { PATHS } from '../src/server/paths.data.ts'
import composeSchema from './fixtures/schemas/compose.data.json' with { type: 'json' }
import kubernetesSchema from './fixtures/schemas/kubernetes.data.json' with { type: 'json' }
import { renderChart } from './support/helm.ts'

const FOLDER = resolve(import.meta.dir, '../deploy/several-nodes')
const CHART = resolve(import.meta.dir, '../deploy/helm/gateway')
const read = (name: string) => readFileSync(join(FOLDER, name), 'utf8')
const config = createDefaultConfig()

/** In seconds: what a server may take to end beside `--notice` and `--drain`. */
const END = 8

/** Returns what follows a flag. */
const readFlag = (args: string[], flag: string): number => Number(args[args.indexOf(flag) + 1])

/** Reads the number before a unit in the first match. */
const readNumber = (text: string, pattern: RegExp): number => {
  const found = pattern.exec(text)?.[1]
  expect([pattern.source, found]).toEqual([pattern.source, expect.stringMatching(/^\d+$/)])
  return Number(found)
}

const listErrors = (schema: object, value: unknown): string[] =>
  new Validator(schema, '2019-09', false)
    .validate(value)
    .errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`)

describe('compose of several servers', () => {
  interface Service {
    image: string
    hostname?: string
    command?: string[]
    depends_on?: string[] | Record<string, { condition: string }>
    environment?: Record<string, string>
    configs?: { source: string }[]
    secrets?: string[]
    volumes?: string[]
    stop_grace_period?: string
    healthcheck?: { test: string[] }
  }
  interface Compose {
    services: Record<string, Service>
    configs: { gateway: { content: string } }
    secrets: Record<string, { environment: string }>
    networks: { default: { ipam: { config: { subnet: string }[] } } }
    volumes: Record<string, null>
  }
  const text = read('compose.yaml')
  const compose = Bun.YAML.parse(text) as Compose
  const { services } = compose
  const all = Object.entries(services)
  const gateways = all.filter(([name]) => name.startsWith('gateway-'))
  const caddyfile = read('Caddyfile')
  /** Fills in what Compose does; `$$` is a dollar. */
  const fill = (value: string) =>
    value
      .replaceAll(/(?<!\$)\$\{(\w+)(:\?[^}]*)?\}/g, (_, name) => `${name.toLowerCase()}.example`)
      .replaceAll('$$', '$')

  test('is what the Compose specification allows', () => {
    expect(listErrors(composeSchema, compose)).toEqual([])
    expect(listErrors(composeSchema, { ...compose, services: { a: { imgae: 1 } } })).not.toEqual([])
  })

  test.each(all)(
    '%s names files, volumes, secrets, configs and services that there are',
    (_, one) => {
      const mounts = (one.volumes ?? []).map(volume => volume.split(':')[0] ?? '')
      const isThere = (mount: string) =>
        mount.startsWith('./') ? existsSync(join(FOLDER, mount)) : mount in compose.volumes
      expect(mounts.filter(mount => !isThere(mount))).toEqual([])
      const { depends_on = [], secrets = [], configs = [] } = one
      const needed = Array.isArray(depends_on) ? depends_on : Object.keys(depends_on)
      expect(needed.filter(name => !(name in services))).toEqual([])
      expect(secrets.filter(name => !(name in compose.secrets))).toEqual([])
      expect(configs.filter(({ source }) => !(source in compose.configs))).toEqual([])
    },
  )

  test('waits for the health of those that say how they are', () => {
    for (const [, { depends_on = {} }] of all)
      for (const [name, { condition }] of Object.entries(depends_on))
        if (condition === 'service_healthy') expect(services[name]?.healthcheck).toBeDefined()
  })

  test('pins every image but its own, and has no secret', () => {
    const images = all.flatMap(([name, { image }]) => (name.startsWith('gateway-') ? [] : [image]))
    expect(images.filter(image => !/:v?\d+(\.\d+)+$/.test(image))).toEqual([])
    const secrets = /(\w*(?:SECRET|PASSWORD|KEY)\w*): (?!\$\{\w+:\?|\/run\/secrets\/)\S/
    expect(secrets.exec(text)).toBeNull()
  })

  test('has two servers, each of a name and a directory of its own', () => {
    expect(gateways.map(([name, { hostname }]) => [name, hostname])).toEqual([
      ['gateway-1', 'gateway-1'],
      ['gateway-2', 'gateway-2'],
    ])
    expect(gateways.map(([, { volumes }]) => volumes)).toEqual([
      ['gateway-1:/data'],
      ['gateway-2:/data'],
    ])
  })

  test.each(gateways)('%s stops later than it lets answers run', (_, one) => {
    const { command = [], stop_grace_period = '' } = one
    const [notice, drain] = [readFlag(command, '--notice'), readFlag(command, '--drain')]
    expect(readNumber(stop_grace_period, /^(\d+)s$/)).toBeGreaterThan(notice + drain + END)
  })

  test.each(gateways)('%s has a config that is taken, and finds the others by it', (_, one) => {
    const environment = Object.entries(one.environment ?? {})
    const env = Object.fromEntries(environment.map(([name, value]) => [name, fill(value)]))
    const { server, storage } = parseConfig(withKnown(fill(compose.configs.gateway.content)), env)
    expect(server.trusted_proxies).toEqual([compose.networks.default.ipam.config[0]?.subnet ?? ''])
    const database = new URL(storage.postgres?.url ?? '')
    expect([database.hostname, database.pathname]).toEqual(['postgres', '/gateway'])
    expect(services.postgres?.environment).toMatchObject({
      ...{ POSTGRES_USER: database.username, POSTGRES_DB: 'gateway' },
    })
    const { endpoint = '', bucket, access_key_id } = storage.s3 ?? {}
    const { hostname, port } = new URL(endpoint)
    expect(hostname).toBe('s3')
    expect(services.s3?.command).toContain(`:${port}`)
    expect(services.s3?.volumes).toEqual([`files:/buckets/${bucket}`])
    expect(access_key_id).toBe(fill(services.s3?.environment?.ROOT_ACCESS_KEY ?? ''))
    expect(storage.files).toBe('s3')
  })

  test('names Valkey by its service', () => {
    expect(compose.configs.gateway.content).toContain('url: redis://valkey:6379\n')
    expect(services.valkey?.image).toStartWith('valkey/valkey:')
  })

  test('its Caddy sends to those that are ready, and hears of a stop before calls are refused', () => {
    const servers = gateways.map(([name]) => `${name}:${config.server.port}`).join(' ')
    const proxies = caddyfile.match(/reverse_proxy .*(?= \{)/g)
    expect(proxies).toEqual([`reverse_proxy ${servers}`, `reverse_proxy ${servers}`])
    const [, path = ''] = /health_uri (\S+)/.exec(caddyfile) ?? []
    expect(PATHS).toContain(path as never)
    const heard =
      readNumber(caddyfile, /health_interval (\d+)s/) +
      readNumber(caddyfile, /health_timeout (\d+)s/)
    const [, { command = [] }] = gateways[0] as [string, Service]
    expect(readFlag(command, '--notice')).toBeGreaterThan(heard)
  })

  test('its Caddy waits longer than a call, takes bodies of every size, and buffers nothing', () => {
    expect(readNumber(caddyfile, /read_timeout (\d+)s/)).toBeGreaterThan(
      config.timeouts.total_seconds,
    )
    expect(readNumber(caddyfile, /max_size (\d+)MiB/)).toBe(LARGEST_BODY / 1024 / 1024)
    expect(readNumber(caddyfile, /keepalive (\d+)s/)).toBeLessThan(config.server.idle_seconds)
    expect(caddyfile).toContain('flush_interval -1')
  })

  const caddy = Bun.which('caddy')
  test.skipIf(caddy === null)('its Caddyfile is valid', async () => {
    const home = mkdtempSync(join(tmpdir(), 'gateway-caddy-'))
    const command = [caddy as string, 'validate', '--adapter', 'caddyfile', '--config']
    const child = Bun.spawn([...command, join(FOLDER, 'Caddyfile')], {
      env: { HOME: home, XDG_CONFIG_HOME: home, XDG_DATA_HOME: home },
      stderr: 'pipe',
    })
    const said = await new Response(child.stderr).text()
    rmSync(home, { recursive: true, force: true })
    expect([await child.exited, said]).toEqual([0, expect.any(String)])
  })
})

describe('the chart', () => {
  interface Manifest {
    kind: string
    metadata: { name: string }
    spec: Record<string, unknown>
  }
  const render = (given: Record<string, unknown> = {}) =>
    renderChart(CHART, { existingSecret: 'secrets', ...given }) as Manifest[]
  const find = <Found>(manifests: Manifest[], kind: string) =>
    manifests.find(one => one.kind === kind) as Manifest & Found
  interface Workload {
    spec: {
      replicas?: number
      serviceName: string
      selector: { matchLabels: object }
      volumeClaimTemplates: { metadata: { name: string }; spec: { storageClassName?: string } }[]
      template: {
        metadata: { labels: object }
        spec: {
          terminationGracePeriodSeconds: number
          enableServiceLinks: boolean
          securityContext: object
          volumes: { name: string }[]
          containers: [
            {
              image: string
              args: string[]
              env: { name: string; value: string }[]
              envFrom: object[]
              ports: { name: string; containerPort: number }[]
              volumeMounts: { name: string; mountPath: string }[]
            } & Record<'startupProbe' | 'livenessProbe' | 'readinessProbe', Probe>,
          ]
        }
      }
    }
  }
  interface Probe {
    httpGet: { path: string; port: string }
    periodSeconds: number
    failureThreshold: number
  }
  const manifests = render()
  const { spec } = find<Workload>(manifests, 'StatefulSet')
  const pod = spec.template.spec
  const [container] = pod.containers

  test.each(
    manifests.filter(({ kind }) => kind in kubernetesSchema.$defs).map(one => [one.kind, one]),
  )('%s is what Kubernetes allows', (kind, one) => {
    expect(listErrors({ ...kubernetesSchema, $ref: `#/$defs/${kind}` }, one)).toEqual([])
  })

  test('has what several servers need, and no server without its secret', () => {
    const kinds = ['ConfigMap', 'PodDisruptionBudget', 'Service', 'Service', 'StatefulSet']
    expect(manifests.map(({ kind }) => kind).toSorted()).toEqual(kinds)
    expect(() => renderChart(CHART)).toThrow('existingSecret: name the Secret')
    expect(container.envFrom).toEqual([{ secretRef: { name: 'secrets' } }])
    expect(container.image).toBe(`registry.example.com/gateway:${manifest.version}`)
    expect(find<object>(manifests, 'PodDisruptionBudget').spec).toEqual({
      maxUnavailable: 1,
      selector: spec.selector,
    })
  })

  test('scales what it says, of which the number is then the scaler’s', () => {
    expect(spec.replicas).toBe(3)
    const scaled = render({ autoscaling: { enabled: true, maxReplicas: 5 } })
    expect(find<Workload>(scaled, 'StatefulSet').spec.replicas).toBeUndefined()
    expect(find<object>(scaled, 'HorizontalPodAutoscaler').spec).toMatchObject({
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'gateway' },
      ...{ minReplicas: 3, maxReplicas: 5 },
      metrics: [{ resource: { name: 'cpu', target: { averageUtilization: 70 } } }],
    })
  })

  test.each([
    [10, 60],
    [3, 600],
  ])('stops later than its notice of %i s and its drain of %i s', (notice, drain) => {
    const { template } = find<Workload>(render({ notice, drain }), 'StatefulSet').spec
    const [{ args, readinessProbe }] = template.spec.containers
    expect([readFlag(args, '--notice'), readFlag(args, '--drain')]).toEqual([notice, drain])
    expect(template.spec.terminationGracePeriodSeconds).toBeGreaterThan(notice + drain + END)
    expect(readinessProbe.periodSeconds).toBeLessThan(10)
  })

  test('asks how it is where the gateway says so', () => {
    const probes = [container.startupProbe, container.livenessProbe, container.readinessProbe]
    expect(probes.map(({ httpGet }) => httpGet)).toEqual([
      { path: '/health', port: 'http' },
      { path: '/health', port: 'http' },
      { path: '/ready', port: 'http' },
    ])
    const paths: readonly string[] = PATHS
    expect(probes.every(({ httpGet }) => paths.includes(httpGet.path))).toBe(true)
  })

  test('keeps the data of each server in a claim of its own, below what its group may write', () => {
    const mounts = new Map(container.volumeMounts.map(({ name, mountPath }) => [name, mountPath]))
    const [claim] = spec.volumeClaimTemplates
    const volumes = [...pod.volumes.map(({ name }) => name), claim?.metadata.name]
    expect([...mounts.keys()].filter(name => !volumes.includes(name))).toEqual([])
    const env = Object.fromEntries(container.env.map(({ name, value }) => [name, value]))
    expect(env.GATEWAY_DATA).toStartWith(`${mounts.get('data')}/`)
    expect(env.GATEWAY_CONFIG).toBe(`${mounts.get('config')}/gateway.yaml`)
    expect(claim?.spec.storageClassName).toBeUndefined()
    const fast = find<Workload>(render({ storage: { className: 'fast' } }), 'StatefulSet')
    expect(fast.spec.volumeClaimTemplates[0]?.spec.storageClassName).toBe('fast')
  })

  test('has a config that is taken, with metrics where they are scraped', () => {
    const { data } = find<{ data: Record<string, string> }>(manifests, 'ConfigMap')
    const env = { GATEWAY_POSTGRES_URL: 'postgres://db/gateway', S3_KEY_ID: 'a', S3_KEY: 'b' }
    const { server, storage } = parseConfig(data['gateway.yaml'] ?? '', env)
    const ports = Object.fromEntries(
      container.ports.map(({ name, containerPort }) => [name, containerPort]),
    )
    expect(ports).toEqual({ http: config.server.port, metrics: 9464 })
    expect(server.metrics_address).toEndWith(`:${ports.metrics}`)
    expect(storage).toMatchObject({ files: 's3', postgres: { url: env.GATEWAY_POSTGRES_URL } })
  })

  test('has services that select its pods, one of which names them', () => {
    const { labels } = spec.template.metadata
    const services = manifests.filter(({ kind }) => kind === 'Service')
    for (const service of services) expect(labels).toMatchObject(service.spec.selector as object)
    const [headless] = services.filter(({ spec }) => spec.clusterIP === 'None')
    expect(headless?.metadata.name).toBe(spec.serviceName)
    // Its environment would have GATEWAY_PORT=tcp://…, with which the program does not start.
    expect(pod.enableServiceLinks).toBe(false)
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 10001 })
  })
})

/** Without what this version has no setting for. */
function withKnown(text: string): string {
  return 'valkey' in Config.properties.storage.properties
    ? text
    : text.replace(/^ *valkey:\n.*\n/m, '')
}
