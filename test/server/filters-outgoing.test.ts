import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import type { ServerTool } from '../../src/extensions/server-tool.ts'
import { datetime } from '../../src/extensions/tools/datetime.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { ENCODINGS } from '../support/disguises.ts'
import { LONG } from '../support/random.ts'
import { DOORS, type LoopStage, openLoopStage } from '../support/tool-loop.ts'

/*
 * What a model hands to a tool leaves the gateway, whatever the tool: filters stand at that door. A
 * generator sends what they look for, in each encoding that a receiver may read, with each action.
 */

const WORD = 'falcon'
let stage: LoopStage
let input: Json
/** What the model says beside its call. */
let said: string | undefined
/** What the tool shows the client alone. */
let shown: string | undefined
let got: Json[] = []
const keys: Record<string, { hash: string; secret: string }> = {}

/** A tool that notes what it is given: all of them are run by the same hand. */
const note: ServerTool = {
  ...datetime,
  name: 'note',
  schema: datetime.schema,
  readOptions: () => ({}),
  listFunctions: () => [{ name: 'note', description: 'Notes', parameters: { type: 'object' } }],
  run: async (_, invocation) => {
    got.push(invocation.input)
    return { text: 'Noted.', isError: false, ...(shown ? { item: { word: shown } } : {}) }
  },
}

const ACTIONS = ['block', 'redact', 'flag'] as const

beforeAll(async () => {
  stage = await openLoopStage(
    ({ results }) =>
      results.length > 0
        ? { answer: { text: 'Done.', finish: 'stop' } }
        : {
            answer: {
              ...(said === undefined ? {} : { text: said }),
              calls: [{ id: 'c', name: 'note', input: JSON.stringify(input) }],
              finish: 'tool_calls',
            },
          },
    { tools: [note] },
  )
  const { gateway } = stage
  const operator = getOperator(gateway)
  for (const action of ACTIONS)
    for (const filterOutput of [false, true]) {
      const made = await createKey(gateway, operator, { name: 'k' })
      const { data } = await createGuardrail(gateway, operator, {
        name: `${action} ${filterOutput}`,
        content_filters: [{ pattern: `(?i)${WORD}`, action, label: 'BIRD' }],
        filterOutput,
      })
      await assignKeys(gateway, operator, data.id, { key_hashes: [made.data.hash] })
      keys[`${action} ${filterOutput}`] = { hash: made.data.hash, secret: made.key }
    }
})
afterAll(() => stage.close())
beforeEach(() => {
  got = []
  said = undefined
  shown = undefined
})

const CASES = ACTIONS.flatMap(action =>
  [false, true].flatMap(filterOutput =>
    DOORS.flatMap(door => [false, true].map(stream => ({ action, filterOutput, door, stream }))),
  ),
)

describe.each(CASES)('$action, filterOutput $filterOutput, $door, streamed $stream:', at => {
  const { action, filterOutput, door, stream } = at

  // A third of the encodings each, by turns.
  const encodings = Object.entries(ENCODINGS)
  const some = encodings.filter((_, i) => LONG || (CASES.indexOf(at) + i) % 3 === 0)
  test.each(some)('a word in %s', async (_, write) => {
    const written = write(WORD)
    const key = keys[`${action} ${filterOutput}`]
    const url = `https://example.com/?q=${written}&a=1`
    input = { query: `a ${written} b`, url, list: [{ deep: written }], [written]: 'name' }
    const { status, error } = await stage.ask(
      door,
      { tools: [{ type: 'gateway:note' }], stream },
      { authorization: `Bearer ${key?.secret}` },
    )
    if (action === 'block') {
      expect(got).toEqual([])
      if (!stream && door === 'messages') expect(status).toBe(403)
      expect(JSON.stringify(error)).toContain('blocked')
      expect(JSON.stringify(error)).not.toContain('499')
      const generation = stage.generations.at(-1)
      expect([generation?.error_type, generation?.cancelled]).toEqual(['permission_denied', false])
      return
    }
    expect(got).toHaveLength(1)
    if (action === 'flag') return expect(got).toEqual([input])
    expect(JSON.stringify(got)).not.toContain(JSON.stringify(written).slice(1, -1))
    expect(JSON.stringify(got).match(/BIRD/g)?.length).toBeGreaterThanOrEqual(4)
    expect(got[0]?.url).toStartWith('https://example.com/?q=')
  })

  test('a text that only looks encoded stays as it is', async () => {
    input = { url: 'https://example.com/a%20b?c=%26&d=é', text: 'R&amp;D \\n 100% <é>', n: 3 }
    const key = keys[`${action} ${filterOutput}`]
    const body = { tools: [{ type: 'gateway:note' }], stream }
    await stage.ask(door, body, { authorization: `Bearer ${key?.secret}` })
    expect(got).toEqual([input])
  })
})

const BLOCKED = DOORS.flatMap(door =>
  [false, true].flatMap(stream => [
    { door, stream, by: 'the model' },
    { door, stream, by: 'the tool' },
  ]),
)

test.each(BLOCKED)(
  'an answer that is blocked while a tool runs is 403, and nobody has left: %j',
  async ({ door, stream, by }) => {
    input = { n: 1 }
    if (by === 'the model') said = `A ${WORD} flies.`
    else shown = `A ${WORD} flies.`
    const { error } = await stage.ask(
      door,
      { tools: [{ type: 'gateway:note' }], stream },
      { authorization: `Bearer ${keys['block true']?.secret}` },
    )
    expect(JSON.stringify(error)).toContain('blocked by content filter')
    const generation = stage.generations.at(-1)
    expect([generation?.error_type, generation?.cancelled]).toEqual(['permission_denied', false])
  },
)
