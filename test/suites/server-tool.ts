import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import type { Json } from '../../src/base/json.ts'
import type { ServerTool } from '../../src/extensions/server-tool.ts'
import type { ToolReading } from '../../src/language/server-tools.ts'
import type { ReceivedRequest } from '../support/fake-providers/fake-provider.ts'
import { takeTurns } from '../support/random.ts'
import {
  DOORS,
  type Door,
  LOOP_PROTOCOLS,
  type LoopReading,
  type LoopStage,
  openLoopStage,
  TURN,
} from '../support/tool-loop.ts'

/** What the suite must be told of a tool. */
export interface ServerToolSample {
  /** Parameters with every option. */
  parameters: Json
  /** What is read of them. */
  options: unknown
  /** Further tools of the call, in the chat API's form. */
  functions?: { name: string; description: string; defer_loading?: boolean }[]
  /** The function that the model calls, and its arguments. */
  name: string
  input: Json
  /** What its result must contain, and its item. */
  output: string
  item: Json
  /** Arguments that the tool must answer with an error. */
  wrongInput: Json
  /** What its item says of them; `incomplete` by default. */
  failedStatus?: string
  /**
   * What it asks models, and what they answer: their turns are those with a line that begins so.
   * There is one of them by default.
   */
  inner?: { line: string; answer: string; turns?: number }
  /** The fields of its item that no two uses have in common. */
  changes?: string[]
  /** How many pictures the answer shows; none by default. */
  pictures?: number
  /** Parameters without which it does not work; none by default. */
  needed?: Json
  /** The APIs that have a form for it, and whether its client runs it: then others show how. */
  doors?: readonly Door[]
  isOfClient?: boolean
  /**
   * Settings and worlds that it needs; called before the stage opens. `input` replaces that of the
   * sample.
   */
  open?: () => Promise<{ config?: Json; input?: Json; close(): Promise<void> }>
}

/** Tests what every tool promises, through every door. Throws if there is no sample of it. */
export function testServerTool(tool: ServerTool, sample: ServerToolSample | undefined): void {
  if (!sample) throw new Error(`${tool.name} has no sample in test/suites/server-tool`)
  test(`${tool.name} works on the APIs that it has a form for`, () => {
    expect<readonly string[] | undefined>(tool.dialects).toEqual(sample.doors)
  })
  describe(`${tool.name}: its parameters`, () => testParameters(tool, sample))
  if (!sample.isOfClient) testUses(tool, sample)
}

function testUses(tool: ServerTool, sample: ServerToolSample): void {
  let stage: LoopStage
  let goodInput: Json = sample.input
  let input: Json = goodInput
  let close: () => Promise<void> = async () => undefined
  beforeAll(async () => {
    const opened = await sample.open?.()
    close = opened?.close ?? close
    goodInput = opened?.input ?? goodInput
    stage = await openLoopStage(
      request =>
        isInner(request)
          ? { answer: { text: sample.inner?.answer ?? '', finish: 'stop' } }
          : request.results.length > 0
            ? { answer: { text: 'Done.', finish: 'stop' } }
            : {
                answer: {
                  text: 'Let me see. ',
                  calls: [{ id: 'call_1', name: sample.name, input: JSON.stringify(input) }],
                  finish: 'tool_calls',
                },
              },
      { limit: 100, ...(opened?.config ? { config: opened.config } : {}) },
    )
  })
  afterAll(async () => {
    await stage?.close()
    await close()
  })

  const isInner = ({ lines }: ReceivedRequest) =>
    lines.some(line => sample.inner && line.startsWith(sample.inner.line))
  const entry = { type: `gateway:${tool.name}`, parameters: sample.parameters }
  const ask = (door: Door, protocol: string, stream: boolean) =>
    stage.ask(door, {
      model: `acme/${protocol}`,
      stream,
      tools: [entry, ...(sample.functions ?? []).map(one => toDoor(door, one))],
    })

  // Each with every door and every protocol; what joins those two is no tool's.
  const cases = takeTurns(
    (sample.doors ?? DOORS).flatMap(door =>
      LOOP_PROTOCOLS.map(protocol => [door, protocol] as const),
    ),
    LOOP_PROTOCOLS.length,
    sample.doors?.length ?? DOORS.length,
  )
  test.each(cases)(
    `${tool.name} runs on %s with %s, whole and streamed`,
    async (door, protocol) => {
      input = goodInput
      const readings: LoopReading[] = []
      for (const stream of [false, true]) {
        const { spent } = stage.money
        stage.heard.length = 0
        const reading = await ask(door, protocol, stream)
        expect([reading.status, reading.error]).toEqual([200, null])
        const { text, shown } = takePictures(door, reading)
        expect([text, reading.calls]).toEqual(['Let me see. Done.', []])
        expect(shown).toBe(sample.pictures ?? 0)
        const turns = stage.heard.filter(request => !isInner(request))
        const innerTurns = sample.inner ? (sample.inner.turns ?? 1) : 0
        expect([turns.length, stage.heard.length]).toEqual([2, 2 + innerTurns])
        expect(turns[1]?.calls.map(({ name }) => name)).toEqual([sample.name])
        expect(turns[1]?.results[0]?.text).toContain(sample.output)
        expect(stage.money.held).toBe(0n)
        const least = BigInt(2 + innerTurns) * TURN
        expect(stage.money.spent - spent).toBeGreaterThanOrEqual(least)
        readings.push(reading)
      }
      const [whole, streamed] = readings
      expect(forget(streamed, sample)).toEqual(forget(whole, sample))
      expectUse(door, whole?.uses ?? [], entry.type, { ...sample, input: goodInput })
    },
  )

  test(`${tool.name} answers arguments that it cannot use with an error`, async () => {
    input = sample.wrongInput
    const reading = await ask('responses', 'openai-chat', false)
    expect([reading.status, reading.text]).toEqual([200, 'Let me see. Done.'])
    expect(reading.uses).toMatchObject([
      { type: entry.type, status: sample.failedStatus ?? 'incomplete' },
    ])
    expect(stage.generations.at(-1)?.steps).toMatchObject([
      { type: 'model', is_error: false },
      { type: 'tool', name: entry.type, function: sample.name, is_error: true },
      { type: 'model', is_error: false },
    ])
  })
}

/** What does not differ between a whole answer and a stream. */
const forget = (reading: LoopReading | undefined, { changes = [] }: ServerToolSample) => ({
  text: reading?.text,
  finish: reading?.finish,
  usage: { ...reading?.usage, inference_geo: 0, service_tier: 0 },
  uses: reading?.uses.map(({ id: _, call_id: __, tool_use_id: ___, tool_call_id: ____, ...use }) =>
    Object.fromEntries(Object.entries(use).filter(([name]) => !changes.includes(name))),
  ),
})

/** Counts the pictures of an answer; where they are text, that is returned without them. */
function takePictures(door: Door, { text, raw }: LoopReading): { text: string; shown: number } {
  const whole = JSON.stringify(raw.some(one => one.response) ? [raw.at(-1)?.response] : raw)
  const patterns: Record<Door, RegExp> = {
    chat: /"image_url":\{"url":"data:image/g,
    messages: /!\[image\]\(data:image/g,
    responses: /"type":"image_generation_call"/g,
  }
  const shown = whole.match(patterns[door])?.length ?? 0
  return { text: text.replace(/!\[image\]\([^)]*\)/g, ''), shown }
}

function toDoor(
  door: Door,
  { name, description, ...rest }: NonNullable<ServerToolSample['functions']>[number],
): Json {
  const schema = { type: 'object', properties: {} }
  if (door === 'chat')
    return { type: 'function', function: { name, description, parameters: schema }, ...rest }
  if (door === 'messages') return { name, description, input_schema: schema, ...rest }
  return { type: 'function', name, description, parameters: schema, ...rest }
}

function expectUse(
  door: Door,
  uses: Json[],
  type: string,
  { name, input, output, item }: ServerToolSample,
) {
  if (door === 'chat') {
    // A tool of several functions is known by the one that was called.
    const tool_name = type.endsWith(`:${name}`) ? type : name
    expect(uses).toMatchObject([{ type: 'reasoning.server_tool_call', tool_name }])
    expect(JSON.parse(String(uses[0]?.arguments))).toEqual(input)
    expect(uses[0]?.result).toContain(output)
  }
  if (door === 'messages') expect(uses[0]).toMatchObject({ type: 'server_tool_use', name, input })
  if (door === 'responses') expect(uses).toMatchObject([{ type, status: 'completed', ...item }])
}

/** Values of every type; none of them is a text that a parameter has a meaning for. */
const VALUES: unknown[] = ['hologram', 7.5, true, ['hologram'], [7], { hologram: 1 }]
const COUNTS = [-1, 0.5, 1e21, 1e308]

/** What a number cannot be; an amount may be a fraction. */
const listCounts = (value: unknown): number[] =>
  typeof value === 'number' ? COUNTS.filter(count => Number.isInteger(value) || count !== 0.5) : []

/** Reads tools within parameters by their type alone. */
const READING: ToolReading = {
  isPlain: false,
  readTool: (entry, field) => {
    const { type } = entry as { type: string }
    const name = type.slice(type.indexOf(':') + 1)
    return { name, identity: name, type, options: null, field: `${field}.type` }
  },
}

function testParameters(
  tool: ServerTool,
  { parameters, options, needed = {}, doors: [door] = DOORS }: ServerToolSample,
): void {
  let stage: LoopStage
  beforeAll(async () => {
    stage = await openLoopStage(() => ({ answer: { text: 'Done.', finish: 'stop' } }))
  })
  afterAll(() => stage.close())
  const send = async (given: unknown) =>
    stage.ask(door ?? 'chat', { tools: [{ type: `openrouter:${tool.name}`, parameters: given }] })

  test('are read to the last one, and no other is needed', async () => {
    expect(tool.readOptions(parameters, 'tools.0.parameters', READING)).toEqual(options)
    expect(() => tool.readOptions(needed, 'tools.0.parameters')).not.toThrow(GatewayError)
  })

  const cases: [name: string, value: unknown][] = [
    ['hologram', 1],
    ...Object.entries(parameters).flatMap(([name, value]): [string, unknown][] => [
      ...VALUES.filter(other => getShape(other) !== getShape(value)).map(
        (other): [string, unknown] => [name, other],
      ),
      ...listCounts(value).map((count): [string, unknown] => [name, count]),
    ]),
  ]
  test.each(cases)('with %s: %j is a 400 that names the field', async (name, value) => {
    const { status, error } = await send({ ...parameters, [name]: value })
    const { field } = (error?.metadata ?? {}) as { field?: string }
    expect([status, field]).toEqual([400, expect.stringMatching(/^tools\.0\.parameters/)])
  })

  test.each([['text'], [7], [[parameters]]])('that are %j are a 400', async given => {
    expect((await send(given)).status).toBe(400)
  })
}

/** Returns the type of a JSON value, and of what a list consists of. */
const getShape = (value: unknown): string =>
  Array.isArray(value) ? `array of ${typeof value[0]}` : typeof value
