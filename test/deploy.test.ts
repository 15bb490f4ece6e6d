import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Validator } from '@cfworker/json-schema'
import manifest from '../package.json' with { type: 'json' }
import { LARGEST_BODY } from '../src/base/schema-builders.ts'
import { createDefaultConfig, parseConfig } from '../src/config.ts'
import composeSchema from './fixtures/schemas/compose.data.json' with { type: 'json' }
import kubernetesSchema from './fixtures/schemas/kubernetes.data.json' with { type: 'json' }
import { type Server, startServer } from './support/server.ts'

const ROOT = resolve(import.meta.dir, '..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const config = createDefaultConfig()

/** Reads the number before a unit in the first match, such as the 30 of `--drain 30`. */
function readNumber(text: string, pattern: RegExp): number {
  const [, number] = pattern.exec(text) ?? []
  expect([pattern.source, number]).toEqual([pattern.source, expect.stringMatching(/^\d+$/)])
  return Number(number)
}

interface Instruction {
  name: string
  flags: string[]
  value: string
}

/** Parses a Dockerfile: comments out, continued lines joined. */
const parseDockerfile = (text: string): Instruction[] =>
  text
    .replace(/^#.*\n/gm, '')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter(line => line.trim() !== '')
    .map(line => {
      const [name = '', ...words] = line.split(' ')
      const flags = words.slice(
        0,
        words.findIndex(word => !word.startsWith('--')),
      )
      return { name, flags, value: words.slice(flags.length).join(' ') }
    })

describe('the Dockerfile', () => {
  const instructions = parseDockerfile(read('Dockerfile'))
  const list = (name: string) => instructions.filter(one => one.name === name)
  const last = (name: string) => list(name).at(-1)?.value ?? ''

  test('has instructions that there are, and begins with an image', () => {
    const known =
      'FROM WORKDIR COPY RUN ENV USER VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD'.split(
        ' ',
      )
    expect(instructions.filter(({ name }) => !known.includes(name))).toEqual([])
    expect(instructions[0]?.name).toBe('FROM')
  })

  // No builder runs in the tests, so each instruction is held against its own grammar.
  const FORMS: Record<string, RegExp> = {
    FROM: /^[\w./-]+:[\w.-]+( AS [a-z][\w.-]*)?$/,
    WORKDIR: /^\/\S*$/,
    COPY: /^\S+( \S+)+$/,
    RUN: /^[^[\s]/,
    ENV: /^[A-Z_]+=\S+$/,
    USER: /^\d+:\d+$/,
    VOLUME: /^\/\S+$/,
    EXPOSE: /^\d+$/,
    STOPSIGNAL: /^SIG[A-Z]+$/,
    HEALTHCHECK: /^CMD \[".*"\]$/,
    ENTRYPOINT: /^\[".*"\]$/,
    CMD: /^\[".*"\]$/,
  }
  const FLAGS: Record<string, RegExp> = {
    COPY: /^--(from=[\w.-]+|chown=\d+:\d+|chmod=\d+)$/,
    HEALTHCHECK: /^--((interval|timeout|start-period)=\d+(ms|s|m|h)|retries=\d+)$/,
  }

  test('has the form that each instruction takes', () => {
    expect(
      instructions.filter(
        ({ name, flags, value }) =>
          !FORMS[name]?.test(value) || !flags.every(flag => FLAGS[name]?.test(flag)),
      ),
    ).toEqual([])
    for (const name of ['ENTRYPOINT', 'CMD', 'USER', 'STOPSIGNAL', 'HEALTHCHECK'])
      expect([name, list(name).length]).toEqual([name, 1])
  })

  test('runs commands that a shell can read', async () => {
    const health = JSON.parse(last('HEALTHCHECK').replace(/^CMD /, ''))
    const scripts = [
      ...list('RUN').map(({ value }) => ['sh', value]),
      [String(health[0]), String(health.at(-1))],
    ]
    expect(scripts.length).toBeGreaterThan(3)
    for (const [shell = '', script = ''] of scripts) {
      const child = Bun.spawn([shell, '-n', '-c', script], { stderr: 'pipe' })
      const said = await new Response(child.stderr).text()
      expect([script, await child.exited, said]).toEqual([script, 0, ''])
    }
  })

  test('pins its images, and builds with the Bun of this project', () => {
    const images = list('FROM').map(({ value }) => value.split(' ')[0])
    expect(images.filter(image => !/^[\w./-]+:[\w.-]*\d[\w.-]*$/.test(image ?? ''))).toEqual([])
    expect(images[0]).toBe(`oven/bun:${manifest.dependencies.bun}`)
  })

  test('copies files that exist, and that .dockerignore lets in', () => {
    const ignored = read('.dockerignore').split('\n')
    expect(ignored).toContain('*')
    const copied = list('COPY')
      .filter(({ flags }) => flags.length === 0)
      .flatMap(({ value }) => value.split(' ').slice(0, -1))
    expect(copied).toContain('src')
    expect(copied.filter(path => !existsSync(join(ROOT, path)))).toEqual([])
    expect(copied.filter(path => !ignored.includes(`!${path}`))).toEqual([])
    const allowed = ignored.filter(line => line.startsWith('!')).map(line => line.slice(1))
    expect(allowed.toSorted()).toEqual(copied.toSorted())
  })

  test('takes the program from a stage that there is, where the build leaves it', () => {
    const stages = list('FROM').map(({ value }) => / AS (\w+)$/.exec(value)?.[1])
    const taken = list('COPY').filter(({ flags }) => flags.length > 0)
    expect(taken.map(({ flags }) => flags)).toEqual([[`--from=${stages[0]}`]])
    expect(taken[0]?.value).toStartWith('/build/dist/gateway ')
    expect(read('build.ts')).toContain("'dist/gateway'")
  })

  test('runs as a user of its own, who owns the data', () => {
    const [user, group] = last('USER').split(':')
    expect(Number(user)).toBeGreaterThan(0)
    const made = list('RUN').find(({ value }) => value.includes(' /data'))?.value
    expect(made).toContain(`--owner=${user} --group=${group} --mode=0700`)
    expect(last('VOLUME')).toBe('/data')
    expect(list('ENV').map(({ value }) => value)).toContain('GATEWAY_DATA=/data')
  })

  test('starts the program itself, so that it gets the signal, with commands that there are', () => {
    expect(JSON.parse(last('ENTRYPOINT'))).toEqual(['gateway'])
    expect(JSON.parse(last('CMD'))).toEqual(['serve', '--log', 'json'])
    expect(last('STOPSIGNAL')).toBe('SIGTERM')
    expect(last('EXPOSE')).toBe(String(config.server.port))
  })
})

test('the Dockerfile of a release checks its archive, and runs the program as the other does', () => {
  const [checked = '', program = ''] = read('deploy/Dockerfile').split('# The program alone')
  expect(checked).toContain('RUN sha256sum --check --ignore-missing SHA256SUMS\n')
  const [, other = ''] = read('Dockerfile').split('# The program alone')
  expect(program).toBe(
    other.replace('--from=build /build/dist/gateway', '--from=archive /release/gateway'),
  )
})

describe('what runs beside the gateway', () => {
  let server: Server
  let metrics: string
  beforeAll(async () => {
    server = await startServer()
    await (
      await server.fetch('/chat/completions', {
        json: { model: 'sandbox/echo', messages: [{ role: 'user', content: 'Hello' }] },
      })
    ).text()
    metrics = await (await fetch(new URL('/metrics', server.url))).text()
  })
  afterAll(async () => {
    await server[Symbol.asyncDispose]()
  })

  test('the health check of the Dockerfile succeeds at a server, and fails at none', async () => {
    const { value } = parseDockerfile(read('Dockerfile')).find(
      ({ name }) => name === 'HEALTHCHECK',
    ) as Instruction
    const command: string[] = JSON.parse(value.replace(/^CMD /, ''))
    const check = async (port: string) =>
      Bun.spawn(
        command.map(word => word.replace('127.0.0.1/8080', `127.0.0.1/${port}`)),
        { stderr: 'ignore' },
      ).exited
    expect(await check(new URL(server.url).port)).toBe(0)
    expect(await check('1')).not.toBe(0)
  })

  interface Rule {
    alert: string
    expr: string
    labels: object
    annotations: { summary: string }
  }
  const rules = (Bun.YAML.parse(read('deploy/alerts.yml')) as { groups: { rules: Rule[] }[] })
    .groups[0]?.rules as Rule[]

  test.each(rules.map(rule => [rule.alert, rule]))(
    '%s asks for metrics that there are',
    (_, rule) => {
      const names = [...rule.expr.matchAll(/\b(?:gateway|process)_[a-z_]+/g)].map(([name]) => name)
      expect(names.length + Number(rule.expr.startsWith('up{'))).toBeGreaterThan(0)
      expect(
        names.filter(
          name => !new RegExp(`^${name}(\\{| )`, 'm').test(metrics) && !isDeclared(name),
        ),
      ).toEqual([])
      expect(rule.annotations.summary).not.toBeEmpty()
    },
  )

  // A metric without a value yet shows only its head.
  const isDeclared = (name: string) =>
    new RegExp(`^# TYPE ${name.replace(/_bucket$/, '')} `, 'm').test(metrics)

  test('the dashboard asks for metrics that there are', () => {
    const { panels } = JSON.parse(read('deploy/grafana-dashboard.json')) as {
      panels: { title: string; targets?: { expr: string }[] }[]
    }
    const asked = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
    expect(asked.length).toBeGreaterThan(25)
    const names = asked.flatMap(expr =>
      [...expr.matchAll(/\b(?:gateway|process|gen_ai)_[a-z_]+/g)].map(([name]) => name),
    )
    expect(names.filter(name => !isDeclared(name))).toEqual([])
  })

  test('alerts name labels that there are', () => {
    const labels = rules.flatMap(({ expr }) =>
      [...expr.matchAll(/(gateway_\w+)\{(\w+)[=!]/g)].map(([, name, label]) => [name, label]),
    )
    expect(labels).not.toEqual([])
    for (const [name, label] of labels)
      expect(metrics).toMatch(new RegExp(`^${name}\\{[^}]*\\b${label}=`, 'm'))
  })

  test('Prometheus reads the rules, at the address that the documentation configures', () => {
    const { rule_files, scrape_configs } = Bun.YAML.parse(read('deploy/prometheus.yml')) as {
      rule_files: string[]
      scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[]
    }
    expect(rule_files).toEqual(['alerts.yml'])
    expect(scrape_configs[0]?.job_name).toBe('gateway')
    const [target] = scrape_configs[0]?.static_configs[0]?.targets ?? []
    expect(read('docs/operations.md')).toContain(`metrics_address: ${target}`)
  })
})

describe('the proxies', () => {
  const longest = config.timeouts.total_seconds
  const megabytes = LARGEST_BODY / 1024 / 1024

  test('nginx waits longer than a call, passes bodies of every size on, and buffers nothing', () => {
    const text = read('deploy/nginx.conf')
    expect(readNumber(text, /proxy_read_timeout (\d+)s;/)).toBeGreaterThan(longest)
    expect(readNumber(text, /client_max_body_size (\d+)m;/)).toBe(megabytes)
    expect(readNumber(text, /keepalive_timeout (\d+)s;/)).toBeLessThan(config.server.idle_seconds)
    for (const line of [
      'proxy_buffering off;',
      'proxy_http_version 1.1;',
      'proxy_next_upstream off;',
    ])
      expect(text).toContain(line)
    expect(text.split('{').length).toBe(text.split('}').length)
    const statements = text.split('\n').map(line => line.trim())
    expect(statements.filter(line => line !== '' && !/^#|[;{}]$/.test(line))).toEqual([])
  })

  test('Caddy does too', () => {
    const text = read('deploy/Caddyfile')
    expect(readNumber(text, /read_timeout (\d+)s/)).toBeGreaterThan(longest)
    expect(readNumber(text, /max_size (\d+)MiB/)).toBe(megabytes)
    expect(readNumber(text, /keepalive (\d+)s/)).toBeLessThan(config.server.idle_seconds)
    expect(text).toContain('flush_interval -1')
    expect(text.split('{').length).toBe(text.split('}').length)
  })
})

/** Lists what a schema says against a value, as places and sentences. */
const listErrors = (schema: object, value: unknown): string[] =>
  new Validator(schema, '2019-09', false)
    .validate(value)
    .errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`)

describe('compose.yaml', () => {
  interface Service {
    image: string
    depends_on?: string[]
    environment?: Record<string, string>
    command?: string[]
    configs?: { source: string; target: string }[]
    volumes?: string[]
    stop_grace_period?: string
    healthcheck?: { test: string[] }
  }
  interface Compose {
    services: Record<'gateway' | 'caddy' | 'prometheus' | 'grafana', Service>
    configs: Record<string, { content: string }>
    networks: { default: { ipam: { config: { subnet: string }[] } } }
    volumes: Record<string, null>
  }
  const text = read('deploy/compose.yaml')
  const compose = Bun.YAML.parse(
    text.replaceAll(/\$\{GATEWAY_NAME[^}]*\}/g, 'a.example'),
  ) as Compose
  const { services, configs } = compose
  const all: [string, Service][] = Object.entries(services)

  test('is what the Compose specification allows', () => {
    expect(listErrors(composeSchema, compose)).toEqual([])
    const wrong = { ...compose, services: { gateway: { ...services.gateway, image: 1, stop: 1 } } }
    expect(listErrors(composeSchema, wrong)).not.toEqual([])
  })

  test.each(all)('%s names files, volumes, configs and services that there are', (_, service) => {
    const mounts = (service.volumes ?? []).map(volume => volume.split(':')[0] ?? '')
    const files = mounts.filter(mount => mount.startsWith('./'))
    expect(files.filter(file => !existsSync(join(ROOT, 'deploy', file)))).toEqual([])
    const named = mounts.filter(mount => !mount.startsWith('./'))
    expect(named.filter(name => !(name in compose.volumes))).toEqual([])
    expect((service.configs ?? []).filter(({ source }) => !(source in configs))).toEqual([])
    expect((service.depends_on ?? []).filter(name => !(name in services))).toEqual([])
  })

  test('pins every image but its own', () => {
    const images = all.flatMap(([name, { image }]) => (name === 'gateway' ? [] : [image]))
    expect(images.filter(image => !/:v?\d+\.\d+\.\d+$/.test(image))).toEqual([])
  })

  test('its gateway stops later than it lets answers run, and is asked how it is', async () => {
    const { command = [], stop_grace_period = '', healthcheck } = services.gateway
    const drain = readNumber(command.join(' '), /--drain (\d+)/)
    expect(readNumber(stop_grace_period, /^(\d+)s$/)).toBeGreaterThan(drain)
    expect(healthcheck?.test).toEqual(['CMD', 'gateway', 'status'])
  })

  test('its parts find each other', () => {
    const { server } = parseConfig(configs.gateway?.content ?? '', {})
    expect(server.trusted_proxies).toEqual([compose.networks.default.ipam.config[0]?.subnet ?? ''])
    const port = server.metrics_address?.split(':')[1]
    expect(configs.prometheus?.content).toContain(`["gateway:${port}"]`)
    const { job_name, rule_files } = { job_name: 'gateway', rule_files: ['alerts.yml'] }
    expect(Bun.YAML.parse(configs.prometheus?.content ?? '')).toMatchObject({
      scrape_configs: [{ job_name }],
      rule_files,
    })
    expect(services.caddy.environment?.GATEWAY_ADDRESS).toBe(`gateway:${config.server.port}`)
    for (const name of Object.keys(services.caddy.environment ?? {}))
      expect(read('deploy/Caddyfile')).toContain(`{$${name}:`)
    expect(configs.datasource?.content).toContain('http://prometheus:9090')
    const folder = /path: (\S+)/.exec(configs.dashboards?.content ?? '')?.[1]
    expect(services.grafana.volumes?.[0]).toStartWith(
      `./grafana-dashboard.json:${folder}/gateway.json`,
    )
  })
})

describe('the manifests of Kubernetes', () => {
  interface Manifest {
    kind: string
    metadata: { name: string }
  }
  interface Container {
    args: string[]
    env: { name: string; value: string }[]
    envFrom: unknown
    ports: { name: string; containerPort: number }[]
    securityContext: object
    volumeMounts: { name: string; mountPath: string }[]
    startupProbe: Probe
    livenessProbe: Probe
    readinessProbe: Probe
  }
  interface Probe {
    httpGet: { path: string; port: string }
  }
  const manifests = Bun.YAML.parse(read('deploy/kubernetes/gateway.yaml')) as Manifest[]
  const find = <T>(kind: string) => manifests.find(one => one.kind === kind) as T & Manifest
  const { spec } = find<{
    spec: {
      replicas: number
      serviceName: string
      selector: { matchLabels: object }
      template: {
        metadata: { labels: object; annotations: Record<string, string> }
        spec: {
          terminationGracePeriodSeconds: number
          enableServiceLinks: boolean
          securityContext: { runAsNonRoot: boolean; runAsUser: number; fsGroup: number }
          containers: [Container]
          volumes: { name: string }[]
        }
      }
      volumeClaimTemplates: { metadata: { name: string } }[]
    }
  }>('StatefulSet')
  const pod = spec.template.spec
  const [container] = pod.containers

  test.each(manifests.map(one => [one.kind, one]))('%s is what Kubernetes allows', (kind, one) => {
    const schema = { ...kubernetesSchema, $ref: `#/$defs/${kind}` }
    expect(listErrors(schema, one)).toEqual([])
    expect(listErrors(schema, { ...one, metadata: { nmae: '' } }).join('\n')).toContain('nmae')
  })

  const kubectl = Bun.which('kubectl')
  test.skipIf(kubectl === null)('are put together by kubectl, with the image named', async () => {
    const folder = join(ROOT, 'deploy/kubernetes')
    const child = Bun.spawn([kubectl as string, 'kustomize', folder], { stdout: 'pipe' })
    const rendered = Bun.YAML.parse(await new Response(child.stdout).text()) as Manifest[]
    expect(await child.exited).toBe(0)
    expect(rendered.map(({ kind }) => kind).toSorted()).toEqual(
      manifests.map(({ kind }) => kind).toSorted(),
    )
    expect(JSON.stringify(rendered)).toContain(`registry.example.com/gateway:${manifest.version}`)
  })

  test('name an image of this version, and nothing else', () => {
    const kustomization = Bun.YAML.parse(read('deploy/kubernetes/kustomization.yaml'))
    expect(kustomization).toMatchObject({
      resources: ['gateway.yaml'],
      images: [{ name: 'gateway', newTag: manifest.version }],
    })
  })

  test('have one server, which stops later than it lets answers run', () => {
    expect(spec.replicas).toBe(1)
    const drain = readNumber(container.args.join(' '), /--drain (\d+)/)
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(drain)
  })

  // Its environment would have GATEWAY_PORT=tcp://…, with which the program does not start.
  test('keep the names of services from the environment', () => {
    expect(pod.enableServiceLinks).toBe(false)
  })

  test('run as the user of the image, who may write data and nothing else', () => {
    const user = readNumber(read('Dockerfile'), /^USER (\d+):/m)
    expect(pod.securityContext).toMatchObject({
      ...{ runAsNonRoot: true, runAsUser: user, fsGroup: user },
    })
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
  })

  test('keep the data in the volume, below the directory that its group may write', () => {
    const mounts = new Map(container.volumeMounts.map(({ name, mountPath }) => [name, mountPath]))
    const volumes = [
      ...pod.volumes.map(({ name }) => name),
      spec.volumeClaimTemplates[0]?.metadata.name,
    ]
    expect([...mounts.keys()].filter(name => !volumes.includes(name))).toEqual([])
    const env = Object.fromEntries(container.env.map(({ name, value }) => [name, value]))
    expect(env.GATEWAY_DATA).toStartWith(`${mounts.get('data')}/`)
    expect(env.GATEWAY_CONFIG).toBe(`${mounts.get('config')}/gateway.yaml`)
  })

  test('have a config that is taken, whose metrics are where they are scraped', () => {
    const { data } = find<{ data: Record<string, string> }>('ConfigMap')
    const { server } = parseConfig(data['gateway.yaml'] ?? '', {})
    const ports = Object.fromEntries(
      container.ports.map(({ name, containerPort }) => [name, containerPort]),
    )
    expect(ports).toEqual({ http: config.server.port, metrics: 9464 })
    expect(server.metrics_address).toEndWith(`:${ports.metrics}`)
    expect(spec.template.metadata.annotations['prometheus.io/port']).toBe(String(ports.metrics))
  })

  test('ask how it is where the gateway says so', () => {
    const probes = [container.startupProbe, container.livenessProbe, container.readinessProbe]
    expect(probes.map(({ httpGet }) => httpGet)).toEqual([
      { path: '/health', port: 'http' },
      { path: '/health', port: 'http' },
      { path: '/ready', port: 'http' },
    ])
  })

  test('select by labels that the pods have', () => {
    const { labels } = spec.template.metadata
    const service = find<{ spec: { selector: object } }>('Service')
    expect(labels).toMatchObject(spec.selector.matchLabels)
    expect(labels).toMatchObject(service.spec.selector)
    expect(spec.serviceName).toBe(service.metadata.name)
  })
})

describe('the systemd unit', () => {
  const unit = read('deploy/gateway.service')

  test('waits longer than it lets answers run, and restarts', () => {
    const drain = readNumber(unit, /--drain (\d+)/)
    expect(readNumber(unit, /TimeoutStopSec=(\d+)/)).toBeGreaterThan(drain)
    expect(unit).toContain('Restart=on-failure')
    expect(unit).toContain('ExecReload=/bin/kill -HUP $MAINPID')
    expect(unit).not.toMatch(/^MemoryDenyWriteExecute/m)
  })

  test('is reloaded by a drop-in that starts the same command, which takes over', () => {
    const [, start] = /^ExecStart=(.+)$/m.exec(unit) ?? []
    const [, reload] =
      /^ExecReload=\/bin\/sh -c '(.+) &'$/m.exec(read('deploy/takeover.conf')) ?? []
    expect(reload?.replace(' --takeover --port 0', '')).toBe(start)
    expect(read('deploy/takeover.conf')).toContain('NotifyAccess=all')
  })

  const analyze = Bun.which('systemd-analyze')
  const isTested = test.skipIf(analyze === null)

  /** Runs systemd-analyze on the unit with its drop-in, and a program in the place of the gateway. */
  async function runAnalyze(...args: string[]): Promise<[code: number, output: string]> {
    const directory = mkdtempSync(join(tmpdir(), 'gateway-unit-'))
    try {
      const program = join(directory, 'gateway')
      writeFileSync(program, '#!/bin/sh\n')
      chmodSync(program, 0o755)
      const path = join(directory, 'gateway.service')
      writeFileSync(path, unit.replace('/usr/local/bin/gateway', program))
      writeFileSync(join(directory, 'gateway.socket'), read('deploy/gateway.socket'))
      mkdirSync(`${path}.d`)
      const dropIn = read('deploy/takeover.conf').replace('/usr/local/bin/gateway', program)
      writeFileSync(join(`${path}.d`, 'takeover.conf'), dropIn)
      const child = Bun.spawn([analyze as string, ...args, path], {
        stdout: 'pipe',
        stderr: 'pipe',
      })
      const texts = [new Response(child.stdout).text(), new Response(child.stderr).text()]
      return [await child.exited, (await Promise.all(texts)).join('')]
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  }

  isTested('is valid', async () => {
    expect(await runAnalyze('verify', '--man=no', '--recursive-errors=no')).toEqual([0, ''])
  })

  isTested('is hardened', async () => {
    const [code, output] = await runAnalyze(
      'security',
      '--offline=true',
      '--threshold=20',
      '--no-pager',
    )
    expect([code, output]).toEqual([0, expect.stringContaining('OK')])
  })
})
