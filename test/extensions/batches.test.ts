import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { cancelBatch, createBatch, deleteBatch, listBatches } from '../../src/extensions/batches.ts'
import { updateGuardrail } from '../../src/limits/guardrails.ts'
import { listGenerations } from '../../src/observability/generations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { deleteExpiredFiles, deleteFile, getFile, requireFile } from '../../src/resources/files.ts'
import { deleteKey, updateKey } from '../../src/resources/keys.ts'
import { createWorkspace, deleteWorkspace } from '../../src/resources/workspaces.ts'
import { buildLine, buildPaidModel, createBatchTools, openBatchHouse } from '../support/batches.ts'
import { TestClock } from '../support/gateway.ts'
import { openSlowStore } from '../support/slow-store.ts'
import { completion, startUpstream, status, type Upstream } from '../support/upstream.ts'

const nameLines = (count: number) => Array.from({ length: count }, (_, i) => `line-${i + 1}`)
const buildLines = (count: number, body: object = {}) =>
  nameLines(count).map(name => buildLine(name, body))
const PAID = { model: 'acme/small' }

test.each([
  ['SQLite', async () => ({})],
  ['a slow store', openSlowStore],
])(
  'a batch in %s answers every line, and says what came of those that fail',
  async (_, openParts) => {
    const house = await openBatchHouse(await openParts())
    const lines = [...buildLines(5), buildLine('bad', { sandbox: { fail: 400 } })]
    const made = await house.create(lines, { metadata: { job: 'night' } })
    expect(made).toMatchObject({
      object: 'batch',
      status: 'validating',
      metadata: { job: 'night' },
    })
    await house.run()
    const batch = await house.read(made.id)
    expect(batch).toMatchObject({ status: 'completed', total: 6, completed: 5, failed: 1 })
    const answers = await house.readResults(batch.output_file_id)
    expect(answers.map(({ custom_id }) => custom_id)).toEqual(nameLines(5))
    expect(answers[1].response.body.choices[0].message.content).toBe('line-2')
    expect(answers[1].response.status_code).toBe(200)
    const [error, ...others] = await house.readResults(batch.error_file_id)
    expect(others).toEqual([])
    expect(error).toMatchObject({ custom_id: 'bad', response: { status_code: 400 }, error: null })
    // They are in its files, and nowhere else.
    expect(await house.gateway.store.batches.listResults(made.id, 0, 9)).toEqual([])
    await house.gateway.close()
  },
)

test('every line is a call on record, with its batch', async () => {
  const { gateway, create, run } = await openBatchHouse()
  const { id } = await create(buildLines(2))
  await run()
  const { data } = await listGenerations(gateway, getOperator(gateway), {})
  expect(data.map(call => [call.batch_id, call.request_id]).sort()).toEqual([
    [id, `${id}-1`],
    [id, `${id}-2`],
  ])
  await gateway.close()
})

test('one that is cancelled before it was looked at names every request', async () => {
  const { gateway, actor, create, read, readResults, run } = await openBatchHouse()
  const { id } = await create(buildLines(3))
  const { id: unreadable } = await create(['{'])
  await cancelBatch(gateway, actor, id)
  await cancelBatch(gateway, actor, unreadable)
  await run()
  const batch = await read(id)
  expect(batch).toMatchObject({ status: 'cancelled', total: 3, completed: 0, failed: 0 })
  const errors = await readResults(batch.error_file_id)
  expect(errors.map(({ custom_id }) => custom_id)).toEqual(nameLines(3))
  expect(errors[0].error.code).toBe('batch_cancelled')
  expect(await read(unreadable)).toMatchObject({ status: 'cancelled', total: 0 })
  await gateway.close()
})

test('requests in the body become a file, for one model and its providers', async () => {
  const { gateway, actor, read, readResults, run } = await openBatchHouse()
  const messages = [{ role: 'user', content: 'Hello' }]
  const made = await createBatch(gateway, actor, {
    endpoint: '/v1/chat/completions',
    model: 'sandbox/echo',
    provider: { only: ['sandbox'] },
    requests: [
      { custom_id: 'a', body: { messages } },
      { custom_id: 'b', body: { messages, provider: { sort: 'price' } } },
    ],
  })
  await run()
  const batch = await read(made.id)
  expect(batch).toMatchObject({ status: 'completed', completed: 2 })
  expect((await readResults(batch.output_file_id))[0].response.body.model).toBe('sandbox/echo')
  await gateway.close()
})

test('a request whose provider is no object fails the batch by its line, and is not made larger', async () => {
  const { gateway, actor, read, run } = await openBatchHouse()
  const create = (provider: unknown) =>
    createBatch(gateway, actor, {
      endpoint: '/v1/chat/completions',
      model: 'sandbox/echo',
      provider: { only: ['sandbox'] },
      requests: [
        { custom_id: 'a', body: { messages: [{ role: 'user', content: 'Hi' }], provider } },
      ],
    })
  const made = [await create('x'.repeat(1_000)), await create(['sandbox'])]
  for (const { input_file_id } of made) {
    const { size_bytes } = await requireFile(gateway, actor, input_file_id, {})
    expect(size_bytes).toBeLessThan(1_200)
  }
  await run()
  for (const { id } of made)
    expect(await read(id)).toMatchObject({
      status: 'failed',
      errors: [{ param: 'body.provider', line: 1 }],
    })
  await gateway.close()
})

describe('what is no batch', () => {
  const messages = [{ role: 'user', content: 'Hello' }]
  const REQUESTS = [{ custom_id: 'a', body: { messages } }]
  const FILE = `or_file_${'0'.repeat(32)}`
  test.each<[string, object, number, string]>([
    ['neither file nor requests', {}, 400, 'input_file_id: expected it, or else requests'],
    ['both', { input_file_id: FILE, requests: REQUESTS }, 400, 'or else requests'],
    ['a model beside a file', { input_file_id: FILE, model: 'm' }, 400, 'model: expected none'],
    [
      'providers beside a file',
      { input_file_id: FILE, provider: { only: ['x'] } },
      400,
      'provider',
    ],
    ['a file that is not there', { input_file_id: FILE }, 404, 'File not found'],
    ['ids that repeat', { requests: [...REQUESTS, ...REQUESTS] }, 400, 'line 2: custom_id'],
  ])('%s is refused', async (_, body, code, message) => {
    const { gateway, actor } = await openBatchHouse()
    const input = { endpoint: '/v1/chat/completions' as const, ...body }
    const refused = createBatch(gateway, actor, input).catch(thrown => thrown)
    expect(await refused).toMatchObject({ status: code, message: expect.stringContaining(message) })
    await gateway.close()
  })

  test('management keys make none, and none are made where batches are off', async () => {
    const house = await openBatchHouse({ config: { batches: { enabled: false } } })
    const input = { endpoint: '/v1/chat/completions' as const, input_file_id: FILE }
    const manager = { ...house.actor, kind: 'management' as const }
    for (const actor of [manager, getOperator(house.gateway), house.actor])
      await expect(createBatch(house.gateway, actor, input)).rejects.toMatchObject({ status: 403 })
    await house.gateway.close()
  })
})

test.each<[string, string, object]>([
  ['no JSON', 'oops', { code: 'invalid_request', line: 2, param: null }],
  ['a field of a wrong type', buildLine('b', { messages: 1 }), { param: 'body.messages', line: 2 }],
  ['a stream', buildLine('b', { stream: true }), { param: 'body.stream', line: 2 }],
  ['a dry run', buildLine('b', { debug: { dry_run: true } }), { param: 'body.debug', line: 2 }],
  ['another endpoint', buildLine('b', {}, { url: '/v1/embeddings' }), { param: 'url', line: 2 }],
  ['another method', buildLine('b', {}, { method: 'GET' }), { param: 'method', line: 2 }],
  ['an id that repeats', buildLine('a'), { param: 'custom_id', line: 2 }],
])('a line with %s fails the batch, by its number', async (_, line, problem) => {
  const { gateway, create, read, run } = await openBatchHouse()
  const { id } = await create([buildLine('a'), line, buildLine('c')])
  await run()
  const batch = await read(id)
  expect(batch).toMatchObject({ status: 'failed', errors: [problem], output_file_id: null })
  expect((await listGenerations(gateway, getOperator(gateway), {})).data).toEqual([])
  await gateway.close()
})

test('a file without lines, and one with too many, fail', async () => {
  const { gateway, create, read, run } = await openBatchHouse({
    config: { batches: { max_requests: 2 } },
  })
  const [empty, many] = [await create(['', ' ']), await create(buildLines(3))]
  await run()
  expect((await read(empty.id)).errors[0]?.message).toContain('it has no lines')
  expect((await read(many.id)).errors[0]?.message).toContain('at most 2 lines')
  await gateway.close()
})

describe('with a provider that is paid', () => {
  let upstream: Upstream
  beforeEach(async () => {
    upstream = await startUpstream()
    upstream.answer(() => completion('Done'))
  })
  afterEach(() => upstream.close())
  const open = (more: Record<string, unknown> = {}, key: object = {}) =>
    openBatchHouse({ config: { ...buildPaidModel(upstream.url), ...more } }, key)

  test('lines that a killed process has paid for are not made again', async () => {
    const house = await open()
    const { gateway } = house
    // As the next start leaves it that finds a call which ran when its process was killed.
    const other = await house.create(buildLines(1, PAID))
    await house.run()
    const [call] = await gateway.store.generations.list({ id: `${other.id}-1` }, 1)
    if (!call) throw new Error('no call')
    const again = await house.create(buildLines(4, PAID))
    const of = { request_id: `${again.id}-2`, batch_id: again.id }
    const generation = { ...call, id: `${call.id}x`, ...of }
    await gateway.recorder.record({ generation, charge: null })
    // Its charge is with the process that was killed.
    await house.runner.start()
    await house.runner.rest()
    await house.runner.stop()
    const batch = await house.read(again.id)
    expect(batch).toMatchObject({ status: 'completed', completed: 3, failed: 1 })
    expect(upstream.hits).toHaveLength(4)
    const [error] = await house.readResults(batch.error_file_id)
    expect(error).toMatchObject({ custom_id: 'line-2', error: { code: 'interrupted' } })
    await gateway.close()
  })

  test('calls whose callers chose the request id of a line stand for none', async () => {
    const house = await open()
    const { gateway } = house
    const other = await house.create(buildLines(1, PAID))
    await house.run()
    const [call] = await gateway.store.generations.list({ id: `${other.id}-1` }, 1)
    if (!call) throw new Error('no call')
    const again = await house.create(buildLines(2, PAID))
    const forged = { ...call, id: `${call.id}x`, request_id: `${again.id}-2`, batch_id: null }
    await gateway.recorder.record({ generation: forged, charge: null })
    await house.runner.start()
    await house.runner.rest()
    await house.runner.stop()
    const batch = await house.read(again.id)
    expect(batch).toMatchObject({ status: 'completed', completed: 2, failed: 0 })
    await gateway.close()
  })

  // A kill between a charge and its answer loses nothing: there is no between.
  test('S-22 an answer is written with its charge, also in a slow store', async () => {
    const config = buildPaidModel(upstream.url)
    const house = await openBatchHouse({ config, ...(await openSlowStore()) })
    const { store } = house.gateway
    const { id } = await house.create([
      ...buildLines(3, PAID),
      buildLine('bad', { model: 'acme/none' }),
    ])
    store.batches.addResult = async () => {
      throw new Error('killed')
    }
    await house.runner.start()
    await house.runner.rest()
    await house.runner.stop()
    const results = await store.batches.listResults(id, 0, 9)
    const calls = await store.generations.list({}, 9)
    expect(results.map(({ line }) => line)).toEqual([1, 2, 3])
    expect(calls).toHaveLength(3)
    expect(await house.read(id)).toMatchObject({ completed: 3, failed: 0 })
    await house.gateway.close()
  })

  test.each([
    ['of the config', { requests_per_minute: 4 }, {}],
    ['of a guardrail', {}, { requests_per_minute: 4 }],
  ])(
    'a line that waits for a rate limit %s is made when that is over',
    async (_, limits, rates) => {
      const clock = new TestClock()
      const house = await openBatchHouse({
        clock,
        config: { ...buildPaidModel(upstream.url), limits },
      })
      const guardrail = getDefaultGuardrailId(house.actor.workspace_id)
      await updateGuardrail(house.gateway, getOperator(house.gateway), guardrail, rates)
      const { id } = await house.create(buildLines(3, PAID))
      await house.runner.start()
      await house.runner.rest()
      // Half of the limit stays for clients who wait.
      expect(upstream.hits).toHaveLength(2)
      expect(await house.read(id)).toMatchObject({ status: 'in_progress', completed: 2, failed: 0 })
      clock.pass(61_000)
      await house.runner.rest()
      await house.runner.stop()
      expect(await house.read(id)).toMatchObject({ status: 'completed', completed: 3, failed: 0 })
      await house.gateway.close()
    },
  )

  test.each([1, 100])('%i lines that a provider has no room for keep up no others', async count => {
    let isBusy = true
    upstream.answer(() => (isBusy ? status(429, 'no') : completion('Hello')))
    const clock = new TestClock()
    const config = { ...buildPaidModel(upstream.url), routing: { failures: 0 } }
    const house = await openBatchHouse({ clock, config })
    const busy = buildLines(count, PAID).map(line => line.replace('"custom_id":"', '$&busy '))
    const { id } = await house.create([...busy, ...buildLines(50)])
    await house.runner.start()
    for (let i = 0; i < count; i++) {
      await house.runner.rest()
      if ((await house.read(id)).completed >= 50) break
      clock.pass(5_001)
    }
    expect(await house.read(id)).toMatchObject({ status: 'in_progress', completed: 50, failed: 0 })
    isBusy = false
    for (let i = 0; i < 60; i++) {
      clock.pass(61_000)
      await house.runner.rest()
      if ((await house.read(id)).status === 'completed') break
    }
    await house.runner.stop()
    const ended = { status: 'completed', completed: count + 50, failed: 0 }
    expect(await house.read(id)).toMatchObject(ended)
    await house.gateway.close()
  })

  test('lines that a limit refuses have that as their error, and nothing is spent above it', async () => {
    const house = await open({}, { limit: 0.00002 })
    const { id } = await house.create(buildLines(9, { ...PAID, max_tokens: 1 }))
    await house.run()
    const batch = await house.read(id)
    expect(batch.status).toBe('completed')
    expect(batch.failed).toBeGreaterThan(0)
    const errors = await house.readResults(batch.error_file_id)
    expect(new Set(errors.map(({ response }) => response.status_code))).toEqual(new Set([402]))
    await house.gateway.close()
  })

  test('where a provider fails all, every line has its error', async () => {
    upstream.answer(() => status(500, 'no'))
    const house = await open({ routing: { failures: 0 } })
    const { id } = await house.create(buildLines(6, PAID))
    await house.run()
    expect(await house.read(id)).toMatchObject({ status: 'completed', completed: 0, failed: 6 })
    expect((await house.read(id)).output_file_id).toBeNull()
    await house.gateway.close()
  })

  test('no line begins while many clients wait', async () => {
    const house = await open({ batches: { pause_at: 1 } })
    const remove = house.gateway.traffic.calls.add({ cancellation: null } as never)
    await house.create(buildLines(2, PAID))
    await house.runner.start()
    await house.runner.rest()
    expect(upstream.hits).toHaveLength(0)
    remove()
    await house.runner.rest()
    await house.runner.stop()
    expect(upstream.hits).toHaveLength(2)
    await house.gateway.close()
  })

  test('at most so many lines run at once, of all batches together, in turn', async () => {
    const house = await open({ batches: { concurrency: 1 } })
    const first = await house.create(buildLines(2, PAID))
    const second = await house.create(buildLines(2, PAID))
    await house.run()
    const calls = await house.gateway.store.generations.list({}, 9)
    expect(calls.map(({ batch_id }) => batch_id)).toEqual([
      second.id,
      first.id,
      second.id,
      first.id,
    ])
    await house.gateway.close()
  })

  describe('what happens in the middle', () => {
    /** Runs a batch of six lines, one after the other, and does something at the third. */
    async function interrupt(
      meddle: (house: Awaited<ReturnType<typeof open>>, id: string) => unknown,
      clock = new TestClock(),
    ) {
      const config = { ...buildPaidModel(upstream.url), batches: { concurrency: 1 } }
      const house = await openBatchHouse({ clock, config })
      const { id } = await house.create(buildLines(6, PAID))
      let count = 0
      let meddled: unknown
      house.gateway.events.on('generation.finished', () => {
        count += 1
        if (count === 3) meddled = meddle(house, id)
      })
      await house.runner.start()
      await house.runner.rest()
      await meddled
      await house.runner.rest()
      await house.runner.stop()
      return { house, id }
    }

    const expectFiles = async (
      { house, id }: Awaited<ReturnType<typeof interrupt>>,
      done: number,
      code: string,
    ) => {
      const batch = await house.read(id)
      expect(await house.readResults(batch.output_file_id)).toHaveLength(done)
      const errors = await house.readResults(batch.error_file_id)
      expect(errors.map(({ error }) => error.code)).toEqual(Array(6 - done).fill(code))
      await house.gateway.close()
    }

    test('a batch that is cancelled keeps what was done', async () => {
      const met = await interrupt((house, id) => cancelBatch(house.gateway, house.actor, id))
      const batch = await met.house.read(met.id)
      expect(batch.status).toBe('cancelled')
      await expectFiles(met, batch.completed, 'batch_cancelled')
    })

    test('a batch that takes more than a day expires', async () => {
      const clock = new TestClock()
      const met = await interrupt(() => clock.pass(86_400_001), clock)
      expect(await met.house.read(met.id)).toMatchObject({ status: 'expired', completed: 3 })
      await expectFiles(met, 3, 'batch_expired')
    })

    test.each(['deleted', 'disabled'])('a batch whose key is %s fails', async how => {
      const met = await interrupt(({ gateway, hash }) =>
        how === 'deleted'
          ? deleteKey(gateway, getOperator(gateway), hash)
          : updateKey(gateway, getOperator(gateway), hash, { disabled: true }),
      )
      const batch = await met.house.read(met.id)
      expect(batch).toMatchObject({ status: 'failed', errors: [{ code: 'key_not_usable' }] })
      expect(upstream.hits.length).toBeLessThan(6)
      await met.house.gateway.close()
    })

    test('a batch whose file is deleted fails, and what was done is written', async () => {
      const met = await interrupt(async ({ gateway, actor, read }, id) =>
        deleteFile(gateway, actor, (await read(id)).input_file_id),
      )
      const batch = await met.house.read(met.id)
      expect(batch).toMatchObject({ status: 'failed', errors: [{ code: 'file_deleted' }] })
      expect(await met.house.readResults(batch.output_file_id)).toHaveLength(batch.completed)
      expect(batch.error_file_id).toBeNull()
      await met.house.gateway.close()
    })
  })

  test('a batch goes with its workspace', async () => {
    const house = await open()
    const operator = getOperator(house.gateway)
    const team = await createWorkspace(house.gateway, operator, { name: 'Team', slug: 'team' })
    const actor = { ...house.actor, workspace_id: team.data.id }
    const tools = createBatchTools(house.gateway, actor)
    const { id } = await tools.create(buildLines(2, PAID))
    await deleteWorkspace(house.gateway, operator, team.data.id, {})
    await tools.run()
    expect(await house.gateway.store.batches.find(id)).toBeUndefined()
    expect(upstream.hits).toHaveLength(0)
    await house.gateway.close()
  })
})

describe('the list', () => {
  test('has the batches of a workspace, newest first, by status and time', async () => {
    const clock = new TestClock()
    const house = await openBatchHouse({ clock })
    const { gateway, actor } = house
    const made: string[] = []
    for (let i = 0; i < 3; i++) {
      made.push((await house.create(buildLines(1))).id)
      clock.pass(60_000)
    }
    await cancelBatch(gateway, actor, made[0] ?? '')
    const ids = async (query: object) =>
      (await listBatches(gateway, actor, query)).data.map(({ id }) => made.indexOf(id))
    expect(await ids({})).toEqual([2, 1, 0])
    expect(await ids({ limit: 1, after: made[2] })).toEqual([1])
    expect(await ids({ status: 'cancelling' })).toEqual([0])
    expect(await ids({ status: ['cancelling', 'validating'] })).toEqual([2, 1, 0])
    expect(
      await ids({ created_after: '2026-03-04T05:06:07Z', created_before: '2026-03-04T05:08:07Z' }),
    ).toEqual([1])
    expect(await listBatches(gateway, actor, { limit: 2 })).toMatchObject({ has_more: true })
    await gateway.close()
  })

  test('a batch is deleted once it has ended, and cancelled only before', async () => {
    const { gateway, actor, create, run } = await openBatchHouse()
    const { id } = await create(buildLines(1))
    await expect(deleteBatch(gateway, actor, id)).rejects.toMatchObject({ status: 409 })
    await run()
    await expect(cancelBatch(gateway, actor, id)).rejects.toMatchObject({ status: 409 })
    expect(await deleteBatch(gateway, actor, id)).toEqual({ id, object: 'batch', deleted: true })
    await expect(cancelBatch(gateway, actor, id)).rejects.toBeInstanceOf(GatewayError)
    await gateway.close()
  })

  test('has results that go by themselves, where that was asked for', async () => {
    const clock = new TestClock('2026-03-04T05:06:07.000Z')
    const { gateway, actor, create, read, run, readResults } = await openBatchHouse({ clock })
    const expiry = { anchor: 'created_at', seconds: 3_600 }
    const { id } = await create(buildLines(1), { output_expires_after: expiry })
    await run()
    const { output_file_id } = await read(id)
    expect(await readResults(output_file_id)).toHaveLength(1)
    clock.pass(3_599_000)
    expect(await deleteExpiredFiles(gateway)).toBe(0)
    clock.pass(1_000)
    const gone = getFile(gateway, actor, String(output_file_id))
    await expect(gone).rejects.toMatchObject({ status: 404 })
    expect(await deleteExpiredFiles(gateway)).toBe(1)
    expect(await gateway.store.files.find(String(output_file_id))).toBeUndefined()
    const places = await Array.fromAsync(gateway.blobs.list())
    expect(places).toHaveLength((await gateway.store.files.all()).length)
    await gateway.close()
  })

  test('a workspace has at most 100 that go on', async () => {
    const { gateway, actor, upload } = await openBatchHouse()
    const input_file_id = await upload(buildLines(1))
    const make = () =>
      createBatch(gateway, actor, { endpoint: '/v1/chat/completions', input_file_id })
    for (let i = 0; i < 100; i++) await make()
    await expect(make()).rejects.toMatchObject({ status: 429 })
    // Requests that came in its body leave no file: who tries again would fill the quota.
    const requests = [{ custom_id: 'a', body: JSON.parse(buildLine('a')).body }]
    const refused = createBatch(gateway, actor, { endpoint: '/v1/chat/completions', requests })
    await expect(refused).rejects.toMatchObject({ status: 429 })
    expect((await gateway.store.files.all()).map(({ id }) => id)).toEqual([input_file_id])
    expect(await Array.fromAsync(gateway.blobs.list())).toHaveLength(1)
    await gateway.close()
  })
})
