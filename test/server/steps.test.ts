import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { examineGateway } from '../../src/app/doctor.ts'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { parseConfig } from '../../src/config.ts'
import { recoverCalls } from '../../src/engine/recover.ts'
import { STAGES, type Stages } from '../../src/engine/stages.ts'
import type { Plugin } from '../../src/extensions/plugin.ts'
import { PLUGINS } from '../../src/extensions/plugins/registry.ts'
import { EXTENSIONS } from '../../src/extensions/registry.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import { authenticate, getOperator } from '../../src/resources/actor.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import { getApp } from '../support/app.ts'
import { countRows, readBooks } from '../support/books.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { buildLocalConfig } from '../support/server.ts'
import { again, SECOND } from '../support/steps/again.ts'
import {
  completion,
  delta,
  done,
  finish,
  type Hit,
  type Script,
  type Step,
  sseHead,
  startUpstream,
  status,
  type Upstream,
  usage,
  usageChunk,
} from '../support/upstream.ts'

/** The price of 100 prompt tokens and 10 output tokens, in nano-dollars. */
const STEP = 100n * 150n + 10n * 600n

let upstream: Upstream
let data: string
let gateway: Gateway
let key: { hash: string; secret: string }

beforeEach(async () => {
  upstream = await startUpstream()
  data = mkdtempSync(join(tmpdir(), 'gateway-steps-'))
  gateway = await opened()
  key = await limitedKey(1)
})

afterEach(async () => {
  await gateway.close()
  await upstream.close()
  rmSync(data, { recursive: true, force: true })
})

const opened = (more: Parameters<typeof testGateway>[0] = {}) =>
  testGateway({
    data,
    config: buildLocalConfig(upstream.url, { limits: { strict: false, wait_seconds: 0 } }),
    plugins: [again as Plugin],
    ...more,
  })

async function limitedKey(limit: number) {
  const made = await createKey(gateway, getOperator(gateway), { name: 'k', limit })
  return { hash: made.data.hash, secret: made.key }
}

const whole = (text: string): Script => [completion(text, { usage: usage(100, 10) })]
const streamed = (text: string): Script => [
  sseHead(),
  delta(text),
  finish(),
  usageChunk(usage(100, 10)),
  done(),
  '0\r\n\r\n',
]

const PATHS = { chat: '/chat/completions', messages: '/messages' } as const
type Dialect = keyof typeof PATHS

function ask(dialect: Dialect, body: object = {}, from: Gateway = gateway, signal?: AbortSignal) {
  const json = {
    model: 'acme/small',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'Hi' }],
    plugins: [{ id: 'again' }],
    ...body,
  }
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key.secret}` }
  const init = {
    method: 'POST',
    headers,
    body: JSON.stringify(json),
    ...(signal ? { signal } : {}),
  }
  return getApp(from).handle(new Request(`http://localhost/api/v1${PATHS[dialect]}`, init))
}

const contentsOf = (hit: Hit | undefined) =>
  (hit?.json as { messages: { content: string }[] } | undefined)?.messages.map(
    ({ content }) => content,
  )

const modelOf = (hit: Hit | undefined) => (hit?.json as { model?: string } | undefined)?.model
const userOf = (hit: Hit | undefined) => (hit?.json as { user?: string } | undefined)?.user

const events = (text: string) =>
  text
    .split('\n')
    .filter(line => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map(line => JSON.parse(line.slice(6)))

/** Returns an answer's text, whatever its form, how often it ended, and its token counts. */
async function read(dialect: Dialect, stream: boolean, response: Response) {
  const text = await response.text()
  if (!stream) {
    const json = JSON.parse(text)
    return dialect === 'chat'
      ? {
          text: json.choices[0].message.content,
          ends: json.choices.length,
          output: json.usage.completion_tokens,
        }
      : {
          text: json.content.map((block: { text: string }) => block.text).join(''),
          ends: 1,
          output: json.usage.output_tokens,
        }
  }
  const all = events(text)
  if (dialect === 'messages')
    return {
      text: all.map(({ delta }) => delta?.text ?? '').join(''),
      ends: all.filter(({ type }) => type === 'message_stop').length,
      output: all.findLast(({ type }) => type === 'message_delta')?.usage.output_tokens,
    }
  const choices = all.flatMap(({ choices }) => choices ?? [])
  return {
    text: choices.map(({ delta }) => delta.content ?? '').join(''),
    ends: choices.filter(({ finish_reason }) => finish_reason !== null).length,
    output: all.findLast(chunk => chunk.usage)?.usage.completion_tokens,
  }
}

const charges = () => gateway.store.ledger.listCharges(generations[0]?.id ?? '')
let generations: Generation[]

function listening(): void {
  generations = []
  gateway.events.on('generation.finished', generation => generations.push(generation))
}

describe('a call of two steps', () => {
  const cases = (['chat', 'messages'] as const).flatMap(dialect =>
    [false, true].map(stream => [dialect, stream] as const),
  )

  test.each(cases)(
    '%s, streamed %p: is one request of a guardrail, with the tokens of both',
    async (dialect, stream) => {
      const rates = { requests_per_minute: 2, tokens_per_minute: 5_000, concurrent_requests: 1 }
      const operator = getOperator(gateway)
      const { data } = await createGuardrail(gateway, operator, { name: 'rates', ...rates })
      await assignKeys(gateway, operator, data.id, { key_hashes: [key.hash] })
      const script = stream ? streamed : whole
      upstream.plan(script('One, '), script('two.'))
      await read(dialect, stream, await ask(dialect, { stream }))
      const actor = authenticate(gateway, `Bearer ${key.secret}`)
      const stands = () =>
        gateway.traffic.counters.rates.describe(getPolicy(gateway, actor).rates ?? [])
      const used = (requests: number, tokens: number) => [
        expect.objectContaining({
          requests_per_minute: expect.objectContaining({ used: requests }),
          tokens_per_minute: expect.objectContaining({ used: tokens }),
          concurrent_requests: { limit: 1, used: 0, remaining: 1 },
        }),
      ]
      expect(stands()).toEqual(used(1, 220))
      upstream.plan(script('One, '), status(500), status(500), status(500), status(500))
      await (await ask(dialect, { stream })).text()
      expect(stands()).toEqual(used(2, 330))
    },
  )

  test.each(cases)(
    '%s, streamed %p: one record, two charges, one end, and each is a request',
    async (dialect, stream) => {
      listening()
      const config = buildLocalConfig(upstream.url, { limits: { requests_per_minute: 2 } })
      await gateway.close()
      gateway = await opened({ config })
      listening()
      upstream.plan(
        stream ? streamed('One, ') : whole('One, '),
        stream ? streamed('two.') : whole('two.'),
      )
      const response = await ask(dialect, { stream })
      expect(response.status).toBe(200)
      expect(await read(dialect, stream, response)).toEqual({
        text: 'One, two.',
        ends: 1,
        output: 20,
      })

      expect(upstream.hits.map(contentsOf)).toEqual([['Hi'], ['Hi', SECOND]])
      expect(generations).toMatchObject([
        {
          total_cost: STEP * 2n,
          native_tokens_prompt: 200,
          native_tokens_completion: 20,
          usageSource: 'exact',
        },
      ])
      expect(generations[0]?.provider_responses).toHaveLength(2)
      expect(await charges()).toEqual([
        { step: 1, byok: false, nanos: STEP },
        { step: 2, byok: false, nanos: STEP },
      ])
      expect(gateway.ledger.getSpent(`key ${key.hash}`, null, false)).toBe(STEP * 2n)
      expect(gateway.ledger.getHeld(`key ${key.hash}`, false)).toBe(0n)
      expect([gateway.traffic.calls.size, (await ask(dialect, { stream })).status]).toEqual([
        0, 429,
      ])
      expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
    },
  )

  test('whose second step fails everywhere is an error, and pays for the first', async () => {
    listening()
    upstream.plan(streamed('One, '), [status(500)])
    const text = await (await ask('chat', { stream: true })).text()
    expect(events(text).find(({ error }) => error)).toMatchObject({ error: { code: 502 } })
    expect(generations).toMatchObject([{ finish_reason: 'error', total_cost: STEP }])
    expect(await charges()).toMatchObject([{ step: 1, nanos: STEP }])
    expect([gateway.ledger.getHeld(`key ${key.hash}`, false), gateway.traffic.calls.size]).toEqual([
      0n,
      0,
    ])
  })

  test('whose key is deleted in between takes no second step', async () => {
    listening()
    upstream.plan([
      sseHead(),
      delta('One, '),
      { wait: 'gone' },
      finish(),
      usageChunk(usage(100, 10)),
      done(),
      '0\r\n\r\n',
    ])
    const response = await ask('chat', { stream: true })
    await updateKey(gateway, getOperator(gateway), key.hash, { disabled: true })
    upstream.open('gone')
    expect(events(await response.text()).find(({ error }) => error)).toMatchObject({
      error: { code: 401 },
    })
    expect([upstream.hits.length, generations[0]?.total_cost]).toEqual([1, STEP])
  })

  test('whose limit is too low for the second is refused, and pays for the first', async () => {
    listening()
    key = await limitedKey(0.00008)
    upstream.plan(whole('One, '), whole('two.'))
    const response = await ask('chat')
    // What was delivered before stays delivered, next to the failure.
    const { choices } = (await response.json()) as { choices: object[] }
    expect(choices).toMatchObject([
      { finish_reason: 'error', error: { code: 402 }, message: { content: 'One, ' } },
    ])
    expect([upstream.hits.length, generations[0]?.total_cost]).toEqual([1, STEP])
    expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
  })

  test('whose client leaves during the second cancels that, and pays for its prompt besides the first', async () => {
    listening()
    upstream.plan(streamed('One, '), [{ wait: 'never' }])
    const client = new AbortController()
    const response = await ask('chat', { stream: true }, gateway, client.signal)
    const reader = response.body?.getReader()
    await reader?.read()
    const asked = upstream.hit(2)
    const reading = reader?.read()
    const { clientLeft } = await asked
    client.abort()
    await reader?.cancel()
    await Promise.allSettled([reading, clientLeft])
    await gateway.recorder.flush()
    expect(generations).toMatchObject([{ cancelled: true }])
    expect(generations[0]?.total_cost).toBeGreaterThan(STEP)
    expect([gateway.ledger.getHeld(`key ${key.hash}`, false), gateway.traffic.calls.size]).toEqual([
      0n,
      0,
    ])
  })

  test('whose client leaves while its plugin runs takes no second step', async () => {
    const thinks = Promise.withResolvers<void>()
    const thought = Promise.withResolvers<void>()
    const slow: typeof again = {
      ...again,
      around: async (...given) => {
        thinks.resolve()
        await thought.promise
        return (await again.around?.(...given)) ?? null
      },
    }
    await gateway.close()
    gateway = await opened({ plugins: [slow as Plugin] })
    listening()
    upstream.plan(streamed('One, '))
    const response = await ask('chat', { stream: true })
    const reader = response.body?.getReader()
    await reader?.read()
    const reading = reader?.read()
    await thinks.promise
    await reader?.cancel()
    thought.resolve()
    await reading?.catch(() => undefined)
    // A second step that is taken after all would arrive before the call that follows.
    upstream.plan(whole('After'))
    await (await ask('chat', { plugins: [] })).text()
    await gateway.recorder.flush()
    expect(generations).toMatchObject([{ total_cost: STEP }, { total_cost: STEP }])
    expect([
      upstream.hits.length,
      gateway.ledger.getHeld(`key ${key.hash}`, false),
      gateway.traffic.calls.size,
    ]).toEqual([2, 0n, 0])
    expect(gateway.ledger.getSpent(`key ${key.hash}`, null, false)).toBe(STEP * 2n)
    expect(await charges()).toEqual([{ step: 1, byok: false, nanos: STEP }])
  })

  test('whose second step has no price is recorded with the first one’s cost', async () => {
    const thenFree: typeof again = {
      ...again,
      around: (_, step) =>
        step.number === 1 && step.call.kind === 'text'
          ? { ...step.call, models: ['acme/free'] }
          : null,
    }
    const config = buildLocalConfig(upstream.url)
    const free = {
      id: 'acme/free',
      context_length: 128_000,
      endpoints: [{ provider: 'local', model: 'free' }],
    }
    await gateway.close()
    gateway = await opened({
      plugins: [thenFree as Plugin],
      config: { ...config, models: [...config.models, free] },
    })
    listening()
    const [head, ...counted] = streamed('two.') as [Step, ...Step[]]
    upstream.plan(streamed('One, '), [head, delta('and '), { wait: 'counted' }, ...counted])
    const response = await ask('chat', { stream: true })
    const reader = response.body?.getReader()
    let text = ''
    while (!text.includes('and ')) text += new TextDecoder().decode((await reader?.read())?.value)
    // A rewritten journal has only the entries of running calls.
    await gateway.journal.holds.clear()
    const left = gateway.journal.holds.listCalls()
    upstream.open('counted')
    while (!(await reader?.read())?.done);
    expect([modelOf(upstream.hits[1]), left]).toMatchObject(['free', [{ step: 1 }]])
    expect([generations[0]?.total_cost, await charges()]).toMatchObject([
      STEP,
      [{ step: 1, nanos: STEP }],
    ])
    expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
    await gateway.journal.holds.clear()
    expect(gateway.journal.holds.listCalls()).toEqual([])
  })

  test('emits events in their order, and none to listeners that were removed', async () => {
    const told: string[] = []
    const names = [
      'call.opened',
      'step.planned',
      'attempt.started',
      'first.token',
      'attempt.failed',
      'generation.finished',
      'call.closed',
    ] as const
    const offs = names.map(name => gateway.events.on(name, () => told.push(name)))
    upstream.plan(whole('One, '), whole('two.'))
    await ask('chat')
    const step = ['step.planned', 'attempt.started']
    expect(told).toEqual([
      'call.opened',
      ...step,
      'first.token',
      ...step,
      'generation.finished',
      'call.closed',
    ])
    // A dry run emits nothing, and a removed listener gets nothing.
    const management = await createKey(gateway, getOperator(gateway), { name: 'm' }, 'management')
    key = { hash: management.data.hash, secret: management.key }
    expect((await ask('chat', { debug: { dry_run: true } })).status).toBe(200)
    expect(told).toHaveLength(8)
    for (const off of offs) off()
    key = await limitedKey(1)
    await ask('chat')
    expect(told).toHaveLength(8)
  })
})

test('a running call is charged the price of its request once', async () => {
  const config = buildLocalConfig(upstream.url)
  const [model] = config.models
  const endpoints = [
    {
      provider: 'local',
      model: 'm',
      usd_per_million_tokens: { prompt: 0, completion: 0, request: 0.01 },
    },
  ]
  await gateway.close()
  gateway = await opened({ config: { ...config, models: [{ ...model, endpoints }] } })
  upstream.plan([
    sseHead(),
    delta('One'),
    { wait: 'seen' },
    finish(),
    usageChunk(usage(100, 10)),
    done(),
    '0\r\n\r\n',
  ])
  const reader = (await ask('chat', { stream: true, plugins: [] })).body?.getReader()
  await reader?.read()
  const soFar = gateway.traffic.calls.listProgress().map(({ spent }) => spent)
  upstream.open('seen')
  while (!(await reader?.read())?.done);
  expect(soFar).toEqual([10_000_000n])
  expect(gateway.ledger.getSpent(`key ${key.hash}`, null, false)).toBe(10_000_000n)
})

describe('content filters', () => {
  /** Creates a plugin that asks these, one after the other. */
  const saying = (...words: string[]): Plugin<object> => ({
    id: 'again',
    readOptions: () => ({}),
    around(_, { number, call }) {
      const text = words[number - 1]
      return text === undefined || call.kind !== 'text'
        ? null
        : {
            ...call,
            messages: [...call.messages, { role: 'user', blocks: [{ type: 'text', text }] }],
          }
    },
  })

  async function guarded(builtin: object, plugin: Plugin<object>) {
    await gateway.close()
    gateway = await opened({ plugins: [plugin as Plugin], data: mkdtempSync(join(data, 'other-')) })
    key = await limitedKey(1)
    listening()
    const made = await createGuardrail(gateway, getOperator(gateway), {
      name: 'g',
      content_filter_builtins: [builtin],
    } as never)
    await assignKeys(gateway, getOperator(gateway), made.data.id, { key_hashes: [key.hash] })
  }

  test('see what a step adds, and nothing twice', async () => {
    await guarded(
      { slug: 'email', action: 'redact' },
      saying('Write to eve@example.com', 'Go on', 'And on'),
    )
    upstream.plan(whole('One'))
    expect(
      (await ask('chat', { messages: [{ role: 'user', content: 'I am ada@example.com' }] })).status,
    ).toBe(200)
    expect(contentsOf(upstream.hits[3])).toEqual([
      'I am [EMAIL]',
      'Write to [EMAIL]',
      'Go on',
      'And on',
    ])
    expect(generations[0]?.contentFilters).toMatchObject([
      { filter: 'email', where: 'input', count: 2 },
    ])
  })

  test('end a call whose next step they block, before any request', async () => {
    await guarded({ slug: 'email', action: 'block' }, saying('Write to eve@example.com'))
    upstream.plan(whole('One'))
    const { choices } = (await (await ask('chat')).json()) as { choices: object[] }
    expect(choices).toMatchObject([{ finish_reason: 'error', error: { code: 403 } }])
    expect([upstream.hits.length, generations[0]?.total_cost]).toEqual([1, STEP])
  })
})

describe.each(['settled', 'asked'])('a gateway that is killed between two steps: %s', at => {
  test('has charged each step once, however often it restarts', async () => {
    await gateway.close()
    upstream.plan(streamed('One, '), [{ wait: 'never' }])
    const program = join(import.meta.dir, '../support/steps/serve.ts')
    const child = Bun.spawn(
      [process.execPath, program, data, JSON.stringify(buildLocalConfig(upstream.url)), at],
      { stdout: 'pipe' },
    )
    const output = child.stdout.getReader()
    const line = async () => new TextDecoder().decode((await output.read()).value)
    const url = (await line()).trim()
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${key.secret}` }
    const body = {
      model: 'acme/small',
      stream: true,
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Hi' }],
      plugins: [{ id: 'again' }],
    }
    const answer = fetch(`${url}/api/v1/chat/completions`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
      .then(response => response.text())
      .catch(() => '')
    if (at === 'settled') expect(await line()).toContain('stopped')
    else await upstream.hit(2)
    child.kill('SIGKILL')
    await Promise.all([child.exited, answer])
    expect(readBooks(data, key.secret)).toMatchObject({
      ledger: Number(STEP),
      recorded: 0,
      calls: 0,
      held: 1,
    })

    // A second step that went out costs its prompt: two messages and the question.
    const second = at === 'asked' ? expect.any(Number) : 0
    for (const found of [1, 0]) {
      gateway = await openGateway({
        data,
        config: parseConfig(JSON.stringify(buildLocalConfig(upstream.url)), {}),
      })
      expect((await recoverCalls(gateway)).calls).toBe(found)
      expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
      const books = readBooks(data, key.secret)
      expect([books.ledger - Number(STEP), books.calls, books.held]).toEqual([second, 1, 0])
      expect([books.counted, books.recorded]).toEqual([books.ledger, books.ledger])
      expect(countRows(data, 'ledger')).toBe(at === 'asked' ? 2 : 1)
      if (found === 1) await gateway.close()
    }
  })
})

test('a replaced stage is replaced for calls, dry runs and explanations alike', async () => {
  const reversed = {
    ...STAGES,
    step: STAGES.step.map(stage =>
      stage.name !== 'plan'
        ? stage
        : {
            ...stage,
            run: (...[world, step]: Parameters<typeof stage.run>) => {
              stage.run(world, step)
              if (step.plan)
                step.plan = { ...step.plan, endpoints: step.plan.endpoints.toReversed() }
            },
          },
    ),
  }
  const provider = { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' }
  const endpoint = (name: string) => ({
    provider: name,
    model: name,
    usd_per_million_tokens: { prompt: 1, completion: 1 },
  })
  const config = {
    routing: { choice: 'listed' },
    providers: { first: provider, second: provider },
    models: [
      {
        id: 'acme/small',
        context_length: 128_000,
        endpoints: [endpoint('first'), endpoint('second')],
      },
    ],
  }
  for (const [stages, order] of [
    [STAGES, ['first', 'second']],
    [reversed, ['second', 'first']],
  ] as const) {
    await gateway.close()
    gateway = await opened({ config, stages, data: mkdtempSync(join(data, 'other-')) })
    key = await limitedKey(1)
    const management = await createKey(gateway, getOperator(gateway), { name: 'm' }, 'management')
    upstream.plan(whole('Hello'))
    await ask('chat', { plugins: [] })
    expect(modelOf(upstream.hits.at(-1))).toBe(order[0])
    const dry = {
      model: 'acme/small',
      messages: [{ role: 'user', content: 'Hi' }],
      debug: { dry_run: true },
    }
    const headers = {
      'content-type': 'application/json',
      authorization: `Bearer ${management.key}`,
    }
    const init = { method: 'POST', headers, body: JSON.stringify(dry) }
    const response = await getApp(gateway).handle(
      new Request('http://localhost/api/v1/chat/completions', init),
    )
    const { endpoints } = (await response.json()) as { endpoints: { provider: string }[] }
    expect(endpoints.map(one => one.provider)).toEqual([...order])
  }
})

test('every extension attached to calls that need none leaves each byte as it is', async () => {
  const attached: Stages = {
    ...STAGES,
    open: STAGES.open.map(stage => (stage.name === 'open' ? { ...stage, ...ATTACH_ALL } : stage)),
  }
  const config = buildLocalConfig(upstream.url)
  const more = { config, plugins: PLUGINS }
  const [plain, full] = [await testGateway(more), await testGateway({ ...more, stages: attached })]
  const secrets = await Promise.all(
    [plain, full].map(async one => (await createTestKeys(one)).inference),
  )
  const send = async (i: number, dialect: Dialect, body: object, script: Script) => {
    upstream.plan(script)
    key = { hash: '', secret: secrets[i] ?? '' }
    const response = await ask(dialect, { plugins: undefined, ...body }, i === 0 ? plain : full)
    return [response.status, await response.text(), upstream.hits.at(-1)?.json]
  }
  try {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom<Dialect>('chat', 'messages'),
        fc.array(fc.string({ unit: 'grapheme', minLength: 1 }), { minLength: 1, maxLength: 4 }),
        fc.string(),
        fc.boolean(),
        async (dialect, texts, answer, stream) => {
          const role = (i: number) => (i % 2 === 0 ? 'user' : 'assistant')
          const messages = texts.map((content, i) => ({ role: role(i), content }))
          const script = stream ? streamed(`a${answer}`) : whole(`a${answer}`)
          const expected = await send(0, dialect, { messages, stream }, script)
          expect(await send(1, dialect, { messages, stream }, script)).toEqual(expected)
        },
      ),
      { numRuns: 30 },
    )
    expect(attachedCount).toBe(30 * EXTENSIONS.length)
  } finally {
    await Promise.all([plain.close(), full.close()])
  }
})

let attachedCount = 0
const ATTACH_ALL: Pick<Stages['open'][number], 'run' | 'when'> = {
  when: () => true,
  async run(world, run) {
    run.extensions = world.extensions
    attachedCount += run.extensions.length
    for (const { open } of run.extensions) await open?.(world, run)
  },
}

describe('a plugin that changes the answer', () => {
  const loud: Plugin<object> = {
    id: 'loud',
    readOptions: () => ({}),
    before: call => ({ ...call, user: 'loud' }),
    after: () => ({
      blocked: null,
      read: async parts =>
        parts.map(part =>
          'text' in part && typeof part.text === 'string'
            ? { ...part, text: part.text.toUpperCase() }
            : part,
        ),
      end: async () => [],
    }),
  }

  test.each([false, true])(
    'and the call, streamed %p: the client sees both, and pays for what was delivered',
    async stream => {
      await gateway.close()
      gateway = await opened({ plugins: [loud as Plugin, again as Plugin] })
      upstream.plan(
        stream ? streamed('One, ') : whole('One, '),
        stream ? streamed('two.') : whole('two.'),
      )
      const plugins = [{ id: 'again' }, { id: 'loud' }]
      expect(await read('chat', stream, await ask('chat', { stream, plugins }))).toMatchObject({
        text: 'ONE, TWO.',
        ends: 1,
        output: 20,
      })
      expect(userOf(upstream.hits[0])).toBe('loud')
    },
  )

  test('does nothing if it is disabled or not requested', async () => {
    await gateway.close()
    gateway = await opened({ plugins: [loud as Plugin] })
    upstream.plan(whole('One'))
    for (const plugins of [[{ id: 'loud', enabled: false }], []])
      expect(await read('chat', false, await ask('chat', { plugins }))).toMatchObject({
        text: 'One',
      })
  })
})

test('O-13 a plugin that throws ends the call as our own bug, and releases its hold', async () => {
  const broken: Plugin<object> = {
    id: 'broken',
    readOptions: () => ({}),
    around: () => {
      throw new GatewayError('server', 'Internal Server Error')
    },
  }
  await gateway.close()
  gateway = await opened({ plugins: [broken as Plugin] })
  upstream.plan(whole('One'))
  const { choices } = (await (await ask('chat', { plugins: [{ id: 'broken' }] })).json()) as {
    choices: object[]
  }
  expect(choices).toMatchObject([
    { finish_reason: 'error', error: { code: 500 }, message: { content: 'One' } },
  ])
  expect([gateway.ledger.getHeld(`key ${key.hash}`, false), gateway.traffic.calls.size]).toEqual([
    0n,
    0,
  ])
})
