import { describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Charge } from '../../src/limits/ledger.ts'
import { type Send, toIncomingResponse } from '../../src/network/egress.ts'
import type { RecorderEntry } from '../../src/observability/generations/store.ts'
import type { Tokenizers } from '../../src/translation/tokenizers.ts'
import { openDatabase } from '../support/database.ts'
import { type Acknowledged, findBrokenInvariants, listUnjournaled } from '../support/invariants.ts'
import { buildLocalConfig, type LocalServer, startLocalServer } from '../support/server.ts'
import { delta, done, finish, usage } from '../support/upstream.ts'

/*
 * The checker that fault tests call must itself be able to fail: each kind of bug is planted by a
 * broken part that is handed in, and has to be found.
 */
const WORDS = 'Hello'
const unframe = (bytes: Buffer) => bytes.toString().replace(/^[0-9a-f]+\r\n|\r\n$/g, '')
const END = () => [finish('stop', usage(10, 5)), done()].map(unframe)

/** A provider whose every second stream breaks off. A reader that lies makes an end of that. */
function createProvider(isLying = false): Send {
  let calls = 0
  return async () => {
    const isCut = ++calls % 2 === 0
    const end = isCut ? (isLying ? END() : []) : [unframe(delta('lo')), ...END()]
    const events = [unframe(delta('Hel')), ...end]
    const body = new ReadableStream({
      pull(controller) {
        const next = events.shift()
        if (next !== undefined) controller.enqueue(Buffer.from(next))
        else if (isCut && !isLying) controller.error(new Error('reset'))
        else controller.close()
      },
    })
    const headers = { 'content-type': 'text/event-stream' }
    return toIncomingResponse(new Response(body, { headers }))
  }
}

/** Counts at once: what broken answers cost is not what these tests are about. */
const ROUGH: Tokenizers = { count: async () => 3, close: () => undefined }

const start = (egress = createProvider()) =>
  startLocalServer(buildLocalConfig('http://127.0.0.1:1/v1'), { egress, tokenizers: ROUGH })

/** Makes calls, of which every second breaks off, and returns what the client has of each. */
async function makeCalls(server: LocalServer, count = 2): Promise<Acknowledged[]> {
  const answers: Acknowledged[] = []
  for (let i = 0; i < count; i++) {
    const json = { model: 'acme/small', stream: true, messages: [{ role: 'user', content: 'Hi' }] }
    const response = await server.fetch('/chat/completions', { json })
    const id = response.headers.get('x-generation-id') ?? ''
    answers.push({ id, body: await response.text(), words: WORDS })
  }
  return answers
}

/** Replaces what is written for the calls that end. */
function changeRecords(
  { gateway }: LocalServer,
  change: (entry: RecorderEntry) => RecorderEntry[],
) {
  const { record } = gateway.store.generations
  gateway.store.generations.record = entries => record(entries.flatMap(change))
}

/** Replaces what the ledger is told at the end of a call. */
function changeSettling({ gateway }: LocalServer, change: (charge: Charge) => Charge) {
  const { settle } = gateway.ledger
  gateway.ledger.settle = (hold, charge) => settle(hold, change(charge))
}

function query({ data }: LocalServer, sql: string): void {
  const db = openDatabase(data)
  for (const statement of sql.split('; ')) db.run(statement)
  db.close()
}

test('a sound gateway breaks no invariant, whatever its provider does', async () => {
  await using server = await start()
  const answers = await makeCalls(server)
  expect(answers.map(({ body }) => body.includes('"error"'))).toEqual([false, true])
  expect(await findBrokenInvariants(server, answers)).toEqual([])
})

describe('a planted bug is found:', () => {
  const PLANTS: [bug: string, plant: (server: LocalServer) => void, broken: string][] = [
    ['a record that is never written', server => changeRecords(server, () => []), 'I8'],
    [
      'a charge that is never written',
      server => changeRecords(server, entry => [{ ...entry, charge: null }]),
      'I8',
    ],
    [
      'a counter that counts twice',
      server => changeSettling(server, charge => ({ ...charge, nanos: charge.nanos * 2n })),
      'I1',
    ],
    [
      'a hold that stays',
      ({ gateway }) => {
        gateway.ledger.settle = () => undefined
        gateway.ledger.release = () => undefined
      },
      'I2',
    ],
    [
      'a place that is never given back',
      ({ gateway: { traffic } }) => {
        traffic.admission.calls.giveBack = () => undefined
      },
      'I4',
    ],
  ]
  test.each(PLANTS)('%s', async (_, plant, broken) => {
    await using server = await start()
    server.isTampered = true
    plant(server)
    const answers = await makeCalls(server)
    expect(await findBrokenInvariants(server, answers)).toContain(broken)
  })

  test.each([
    'create temp table copy as select * from ledger limit 1; ' +
      'update copy set seq = 99, step = 9; insert into ledger select * from copy',
    'update spend set nanos = nanos + 1',
    'update generations set total_cost = total_cost + 1 where rowid = 1',
    'drop trigger if exists ledger_update; update ledger set nanos = nanos + 1 where seq = 1',
  ])('%s', async sql => {
    await using server = await start()
    server.isTampered = true
    const answers = await makeCalls(server)
    query(server, sql)
    expect(await findBrokenInvariants(server, answers)).toContain('I1')
  })

  test.each<[what: string, plant: (server: LocalServer) => void, broken: string]>([
    ['a changed counter', server => query(server, 'update spend set nanos = nanos + 1'), 'I1'],
    [
      'a hold that stays',
      ({ gateway }) => {
        gateway.ledger.reserve(
          { key_hash: 'k', user_id: 'u', workspace_id: 'w' },
          { maximum: { own: 1n, byok: null }, minimum: { own: 1n, byok: null } },
          [],
        )
      },
      'I2',
    ],
    [
      'a key in a file',
      ({ data, inference_key }) => writeFileSync(join(data, 'core'), inference_key),
      'I5',
    ],
    [
      'a record of another cost',
      server => query(server, 'update generations set upstream_inference_cost = 1 where rowid = 1'),
      'I8',
    ],
  ])('%s, when the server of any test stops', async (_, plant, broken) => {
    const server = await start()
    await makeCalls(server)
    plant(server)
    await expect(server[Symbol.asyncDispose]()).rejects.toThrow(broken)
  })

  test('a reader that takes a stream which broke off for a finished one', async () => {
    await using server = await start(createProvider(true))
    expect(await findBrokenInvariants(server, await makeCalls(server))).toContain('P4')
  })

  test.each([false, true])('a journal that forgets: %p', async isForgetful => {
    const went = Promise.withResolvers<void>()
    const wait = Promise.withResolvers<void>()
    const answer = createProvider()
    await using server = await start(async (...asked) => {
      went.resolve()
      await wait.promise
      return answer(...asked)
    })
    const ids: string[] = []
    server.gateway.events.on('call.opened', ({ call }) => ids.push(call.id))
    if (isForgetful)
      server.gateway.journal.holds.append = () => ({
        written: Promise.resolve(),
        forget: () => undefined,
      })
    const calls = makeCalls(server, 1)
    await went.promise
    expect([ids.length, listUnjournaled(server, ids)]).toEqual([1, isForgetful ? ids : []])
    wait.resolve()
    await calls
  })
})
