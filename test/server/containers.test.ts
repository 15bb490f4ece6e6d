import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import type { Json } from '../../src/base/json.ts'
import { describeMachine } from '../../src/extensions/tools/container/environment.ts'
import { bubblewrap } from '../../src/network/sandboxes/bubblewrap.ts'
import { openMetrics } from '../../src/observability/metrics.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createWorkspace, updateWorkspace } from '../../src/resources/workspaces.ts'
import { makeHome } from '../support/containers.ts'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { FakeSandbox } from '../support/sandboxes/fake.ts'
import { findProcesses, isRunning, listDescendants } from '../support/sandboxes/host.ts'
import { startServer } from '../support/server.ts'
import { buildLoopConfig, DOORS, type LoopStage, openLoopStage } from '../support/tool-loop.ts'

const obstacle = await bubblewrap.findObstacle()

/** A model that runs a command, then says what it was told. */
const obey =
  (readCommand: () => string): Scenario =>
  ({ tools, results }) => {
    const told = results.at(-1)?.text
    if (told !== undefined) return { answer: { text: told, finish: 'stop' } }
    const [name = ''] = tools
    const command = readCommand()
    const input = JSON.stringify(name === 'shell' ? { commands: [command] } : { command })
    return { answer: { calls: [{ id: 'call_1', name, input }], finish: 'tool_calls' } }
  }

const bash = (parameters: Json = {}) => ({
  type: 'gateway:bash',
  parameters: { engine: 'openrouter', ...parameters },
})
const shell = (parameters: Json = {}) => ({ type: 'gateway:shell', parameters })

describe('a call with commands', () => {
  let stage: LoopStage
  let sandbox: FakeSandbox
  let command: string
  const open = async (settings: Json = { kind: 'just-bash' }) => {
    await stage?.close()
    sandbox = new FakeSandbox()
    command = 'write a.txt hello'
    stage = await openLoopStage(
      obey(() => command),
      { config: { sandbox: settings }, parts: { sandboxes: [sandbox] } },
    )
  }
  beforeEach(() => open())
  afterEach(() => stage.close())
  afterAll(() => stage.close())

  const containerOf = async (body: Json, headers: HeadersInit = {}): Promise<unknown> => {
    const { uses } = await stage.ask('responses', { tools: [shell()], ...body }, headers)
    return uses[0]?.container_id
  }

  test('runs in the container of its session', async () => {
    const named = (session: string) => ({ 'x-session-id': session })
    expect(await containerOf({ session_id: 'abc' })).toBe('sess_abc')
    expect(await containerOf({}, named('from-header'))).toBe('sess_from-header')
    expect(await containerOf({ session_id: 'body' }, named('header'))).toBe('sess_body')
    expect(await containerOf({ prompt_cache_key: 'a-key' })).toBe('sess_a-key')
    expect(await containerOf({ session_id: 'with space', prompt_cache_key: 'k' })).toBe('sess_k')
    expect(await containerOf({ session_id: `${'x'.repeat(10)}${'y'.repeat(20)}` })).toBe(
      `sess_${'y'.repeat(20)}`,
    )
  })

  test('without a session runs in that of the conversation, or in its own', async () => {
    const first = await containerOf({})
    expect(first).toMatch(/^gen_[0-9a-f]{20}$/)
    expect(await containerOf({})).not.toBe(first)
    const { raw } = await stage.ask('responses', { tools: [shell()] })
    const items = (raw[0] as { output: Json[] }).output
    const used = items.find(({ container_id }) => container_id)?.container_id
    const input = [{ role: 'user', content: 'Hi' }, ...items, { role: 'user', content: 'Again' }]
    expect(await containerOf({ input })).toBe(used)
  })

  test.each([
    ['tools.0.parameters.environment', { environment: { type: 'local' } }],
    [
      'tools.0.parameters.environment',
      {
        environment: {
          type: 'container_auto',
          network_policy: { type: 'allowlist', allowed_domains: [] },
        },
      },
    ],
    ...[
      '10.0.0.1',
      '[::1]',
      'localhost',
      'a b',
      'a.example:80',
      'http://a.example',
      '*.*',
      '**',
    ].map(host => [
      'tools.0.parameters.environment.network_policy.allowed_domains.0',
      {
        environment: {
          type: 'container_auto',
          network_policy: { type: 'allowlist', allowed_domains: [host] },
        },
      },
    ]),
    ...['', 'a/b', '..', 'x'.repeat(41), 'ü'].map(container_id => [
      'tools.0.parameters.environment',
      { environment: { type: 'container_reference', container_id } },
    ]),
    ...[['nope'], ['or_file_../../etc'], [7], Array(21).fill(`or_file_${'0'.repeat(32)}`)].map(
      file_ids => [
        'tools.0.parameters.environment',
        { environment: { type: 'container_auto', file_ids } },
      ],
    ),
    [
      'tools.0.parameters.environment.file_ids.0',
      { environment: { type: 'container_auto', file_ids: [`or_file_${'0'.repeat(32)}`] } },
    ],
    ['tools.0.parameters.engine', { engine: 'native' }],
  ] as [string, Json][])('with a wrong %s is a 400 before any command', async (field, wrong) => {
    const { status, error } = await stage.ask('responses', { tools: [shell(wrong)] })
    expect([status, String((error?.metadata as Json)?.field)]).toEqual([
      400,
      expect.stringContaining(field),
    ])
    expect(sandbox.boxes).toEqual([])
  })

  test('is refused by name where no sandbox is enabled, or it does not hold', async () => {
    await open({ kind: false })
    const refused = await stage.ask('chat', { tools: [bash()] })
    expect([refused.status, refused.error?.message]).toEqual([
      400,
      'tools.0.type: gateway:bash does not work here: sandbox.kind in the config names no sandbox',
    ])
    await open()
    sandbox.obstacle = 'bwrap must be installed'
    expect((await stage.ask('responses', { tools: [shell()] })).error?.message).toBe(
      'tools.0.type: gateway:shell does not work here: just-bash: bwrap must be installed',
    )
  })

  test.each(DOORS)('by %s is a 409 where its container runs with another network', async door => {
    stage.gateway.network = {
      open: async () => ({ socket: '/run/none', close: async () => undefined }),
    }
    const policy = (...allowed_domains: string[]) => ({
      network_policy: { type: 'allowlist', allowed_domains },
    })
    const ask = (environment: Json, session_id = 'one') =>
      stage.ask(door, { session_id, tools: [bash({ environment })] })
    const auto = { type: 'container_auto' }
    expect((await ask({ ...auto, ...policy('b.example', 'a.example') })).status).toBe(200)
    const turns = stage.heard.length
    for (const other of [{}, { network_policy: { type: 'disabled' } }, policy('a.example')])
      for (const named of [auto, { type: 'container_reference', container_id: 'sess_one' }]) {
        const { status, error } = await ask({ ...named, ...other })
        expect([status, error?.message]).toEqual([
          409,
          expect.stringContaining('runs with another network_policy'),
        ])
      }
    // No model was asked, and no command ran.
    expect([stage.heard.length, sandbox.boxes.length]).toEqual([turns, 1])
    expect(sandbox.boxes[0]?.commands).toHaveLength(1)
    // The same hosts in another order are no other policy; another container has its own.
    expect((await ask({ ...auto, ...policy('A.example.', 'b.example') })).status).toBe(200)
    expect((await ask(auto, 'two')).status).toBe(200)
    await stage.gateway.warm.end(stage.gateway.warm.listIds()[0] ?? '')
    expect((await ask(auto)).status).toBe(200)
  })

  test('tells its model what the commands reach', () => {
    expect(describeMachine({ hosts: [] })).toBe('a Linux machine without a network')
    expect(describeMachine({ hosts: ['*.a.example', 'b.example'] })).toEndWith(
      'by the proxy in http_proxy and https_proxy: *.a.example, b.example',
    )
  })

  test('is a 400 where its commands can have no network', async () => {
    sandbox.networkObstacle = 'just-bash has no network'
    const network_policy = { type: 'allowlist', allowed_domains: ['*'] }
    const environment = { type: 'container_auto', network_policy }
    const { status, error } = await stage.ask('chat', { tools: [bash({ environment })] })
    expect([status, error?.message]).toEqual([
      400,
      'tools.0.parameters.environment.network_policy: expected disabled: just-bash has no network',
    ])
    expect([stage.heard, sandbox.boxes]).toEqual([[], []])
  })

  test('that names a container of another workspace has one of its own', async () => {
    const { gateway } = stage
    const { data: team } = await createWorkspace(gateway, getOperator(gateway), {
      ...{ name: 'Team', slug: 'team' },
    })
    await makeHome(gateway, team.id, 'theirs', { 'a.txt': 'secret' })
    const environment = { type: 'container_reference', container_id: 'theirs' }
    command = 'read a.txt'
    for (const door of DOORS) {
      const { status, text } = await stage.ask(door, { tools: [bash({ environment })] })
      expect([status, text]).toEqual([200, expect.not.stringContaining('secret')])
    }
    command = 'write a.txt ours'
    await stage.ask('responses', { tools: [shell({ environment })] })
    const theirs = await gateway.store.containers.find(team.id, 'theirs')
    const file = await gateway.store.containers.findFile(theirs?.id ?? '', 'a.txt')
    expect(file?.size_bytes).toBe('secret'.length)
  })

  test('is refused where the workspace has switched the tool off', async () => {
    const operator = getOperator(stage.gateway)
    const change = { disabled_server_tools: ['openrouter:bash' as const] }
    await updateWorkspace(stage.gateway, operator, operator.workspace_id, change)
    const refused = await stage.ask('chat', { tools: [bash()] })
    expect([refused.status, refused.error?.message]).toEqual([
      403,
      'The workspace has disabled the tool gateway:bash',
    ])
  })

  test('is the client’s with the default engine of bash', async () => {
    const { calls, status } = await stage.ask('chat', { tools: [{ type: 'gateway:bash' }] })
    expect([status, calls]).toEqual([
      200,
      [{ id: 'call_1', name: 'bash', input: { command: 'write a.txt hello' } }],
    ])
    expect(sandbox.boxes).toEqual([])
  })

  test('leaves the provider’s own shell to the provider', async () => {
    const { status } = await stage.ask('responses', {
      ...{ model: 'acme/openai-responses', tools: [{ type: 'shell' }] },
    })
    expect([status, sandbox.boxes]).toEqual([200, []])
  })

  test('tells the model of a time that is over, and of what fails', async () => {
    command = 'late'
    const late = await stage.ask('responses', { tools: [shell()] })
    expect(late.uses).toMatchObject([
      { status: 'completed', output: [{ outcome: { type: 'timeout' } }] },
    ])
    expect((await stage.ask('chat', { tools: [bash()] })).text).toContain('took too long')
    command = ' '
    const wrong = await stage.ask('responses', { tools: [shell()] })
    expect(wrong.uses).toMatchObject([
      { status: 'failed', error: 'commands.0: expected a command' },
    ])
    expect(wrong.uses[0]).not.toHaveProperty('output')
    sandbox.shrinks = 1_000
    command = 'write a.txt x'
    expect((await stage.ask('chat', { tools: [bash()] })).text).toContain('The container failed.')
  })

  test('is cancelled with its client, with everything that runs', async () => {
    command = 'hang'
    const leaving = new AbortController()
    const sent = stage.send('chat', { tools: [bash()], stream: true }, { signal: leaving.signal })
    const reading = sent.then(response => response.text()).catch(() => 'left')
    while (sandbox.boxes.length === 0) await Bun.sleep(1)
    await sandbox.boxes[0]?.hung.promise
    leaving.abort()
    await sandbox.boxes[0]?.closed.promise
    await reading
    expect(sandbox.open_boxes).toEqual([])
  })

  test('is counted by how its commands end', async () => {
    const metrics = openMetrics(stage.gateway)
    await stage.ask('chat', { tools: [bash()] })
    command = 'late'
    await stage.ask('chat', { tools: [bash()] })
    const text = metrics.renderText()
    expect(text).toContain('gateway_container_commands_total{outcome="exit"} 1')
    expect(text).toContain('gateway_container_commands_total{outcome="timeout"} 1')
    expect(text).toContain('gateway_running_containers 2')
  })
})

describe('a server', () => {
  let upstream: FakeProviderServer
  let command = ''
  beforeAll(() => {
    upstream = startFakeProviders({ loop: obey(() => command) })
  })
  afterAll(() => upstream.close())

  const start = (kind: string, data?: string) =>
    startServer({
      config: { sandbox: { kind }, ...buildLoopConfig(name => upstream.getBaseUrl(name)) },
      ...(data === undefined ? {} : { data }),
    })

  const ask = async (url: string, key: string) => {
    const response = await fetch(`${url}/api/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model: 'acme/openai-chat',
        messages: [{ role: 'user', content: 'Hi' }],
        session_id: 'one',
        tools: [bash()],
      }),
    })
    const answer = (await response.json()) as { choices: { message: { content: string } }[] }
    return answer.choices[0]?.message.content ?? ''
  }

  /** Waits until sandboxes wait for containers: two, as the config says by default. */
  const awaitReady = async ({ url }: { url: string }) => {
    const hasReady = async () =>
      (await (await fetch(`${url}/metrics`)).text()).includes('gateway_ready_sandboxes 2')
    while (!(await hasReady())) await Bun.sleep(5)
  }

  test('has the Worker of just-bash', async () => {
    await using server = await start('just-bash')
    command = 'echo $((6 * 7)) | tee a.txt'
    expect(await ask(server.url, server.inference_key)).toContain('"stdout":"42\\n"')
  })

  test.skipIf(obstacle !== null)(
    `that is killed leaves no process, and its homes${obstacle ? `: ${obstacle}` : ''}`,
    async () => {
      await using server = await start('bubblewrap')
      command = 'printf kept > kept.txt'
      await ask(server.url, server.inference_key)
      const marker = String(42_000_000 + (process.pid % 900_000))
      command = `printf lost > lost.txt; sleep ${marker}`
      const hanging = ask(server.url, server.inference_key).catch(() => 'cut')
      while (findProcesses(`sleep\0${marker}`).length === 0) await Bun.sleep(5)
      await awaitReady(server)
      // The one that runs, its command, and those that wait for a container.
      const started = listDescendants(server.process.pid)
      expect(started.length).toBeGreaterThanOrEqual(4)
      await server.kill()
      expect(await hanging).toBe('cut')
      while (started.some(isRunning)) await Bun.sleep(5)
      expect(findProcesses(marker)).toEqual([])
      await using again = await start('bubblewrap', server.data)
      command = 'cat kept.txt; ls'
      const told = await ask(again.url, server.inference_key)
      expect(told).toContain('"stdout":"keptkept.txt\\n"')
      expect(readdirSync(`${server.data}/files/part`)).toEqual([])
      await awaitReady(again)
      const kept = listDescendants(again.process.pid)
      expect([kept.length >= 3, (await again.stop()).code, kept.filter(isRunning)]).toEqual([
        ...[true, 0, []],
      ])
    },
  )
})
