import { afterAll, beforeAll, expect, test } from 'bun:test'
import { measureBestLoopUse } from '../support/event-loop.ts'
import { type LoopWorld, openLoopWorld } from '../support/loop-world.ts'
import { takeTurns } from '../support/random.ts'

/*
 * One request to the Responses API must not make everyone else wait, whatever is in it and whatever
 * the protocol of its provider. The bound is 250 ms; machines of tests are slow, so twice that.
 */

const LONGEST = 500
const MIB = 1024 * 1024
const PROTOCOLS = [
  'openai-chat',
  'anthropic-messages',
  'gemini',
  'bedrock-converse',
  'cohere-chat',
  'openai-responses',
]

let world: LoopWorld

beforeAll(async () => {
  world = await openLoopWorld()
  // What is read and compiled once is not measured.
  for (const protocol of PROTOCOLS)
    await world.send('/responses', { model: `acme/${protocol}`, input: 'Hi' })
})
afterAll(() => world.gateway.close())

const repeat = <T>(count: number, build: (i: number) => T | T[]): T[] =>
  Array.from({ length: count }, (_, i) => build(i)).flat() as T[]

const call = (i: number) => ({
  type: 'function_call',
  call_id: `call_${i}`,
  name: 'get',
  arguments: '{"a":1}',
})
const output = (i: number) => ({
  type: 'function_call_output',
  call_id: `call_${i}`,
  output: 'one',
})
const thought = (i: number) => ({
  type: 'reasoning',
  id: `rs_${i}`,
  summary: [{ type: 'summary_text', text: 'Hm' }],
  encrypted_content: 'gAAAA',
})
const tool = (i: number) => ({
  type: 'function',
  name: `tool_${i}`,
  parameters: { type: 'object', properties: { a: { type: 'string' } } },
})

const BODIES: Record<string, () => object> = {
  'a text of 30 MB in an item': () => ({
    input: [{ role: 'user', content: [{ type: 'input_text', text: 'a'.repeat(30 * MIB) }] }],
  }),
  '75,000 messages': () => ({ input: repeat(75_000, () => ({ role: 'user', content: 'x' })) }),
  '75,000 messages of the model': () => ({
    input: repeat(75_000, () => ({ role: 'assistant', content: 'x' })),
  }),
  '40,000 calls': () => ({ input: repeat(40_000, call) }),
  '15,000 calls, each with its output': () => ({
    input: repeat(15_000, i => [call(i), output(i)] as object[]),
  }),
  '20,000 thoughts': () => ({ input: repeat(20_000, thought) }),
  '20,000 outputs without their calls': () => ({ input: repeat(20_000, output) }),
  '20,000 items of the provider': () => ({
    input: repeat(20_000, i => ({ type: 'web_search_call', id: `ws_${i}`, status: 'completed' })),
  }),
  '20,000 custom calls': () => ({
    input: repeat(20_000, i => ({
      type: 'custom_tool_call',
      call_id: `c${i}`,
      name: 'sh',
      input: 'ls',
    })),
  }),
  '2,048 tools': () => ({ input: 'Hi', tools: repeat(2_048, tool) }),
}

/** The last body, as the text of its fields: it is as large for each protocol. */
const written = { name: '', fields: '' }

function writeFields(name: string): string {
  if (written.name !== name)
    Object.assign(written, { name, fields: JSON.stringify(BODIES[name]?.()).slice(1) })
  return written.fields
}

const names = Object.keys(BODIES)
const cases = takeTurns(
  names.flatMap(name => PROTOCOLS.map(protocol => ({ name, protocol }))),
  PROTOCOLS.length,
  3,
)
for (const name of names)
  test.each(cases.filter(one => one.name === name).map(({ protocol }) => protocol))(
    `nobody waits for ${name}, to %s`,
    async protocol => {
      const text = `{"model":"acme/${protocol}",${writeFields(name)}`
      const { longest } = await measureBestLoopUse(LONGEST, () => world.send('/responses', text))
      expect(longest).toBeLessThan(LONGEST)
    },
  )
