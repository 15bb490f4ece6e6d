import { beforeAll, describe, expect, spyOn, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { requireValid } from '../../../src/base/body.ts'
import { type Json, readObject } from '../../../src/base/json.ts'
import type { Answer } from '../../../src/language/answer.ts'
import type { TextCall } from '../../../src/language/call.ts'
import type { TextPart } from '../../../src/language/part.ts'
import { AwsEventStreamScanner } from '../../../src/network/part-stream.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { converse, converseStream, invoke } from '../../../src/translation/dialects/bedrock.ts'
import { createAnswer, finish, receipt, start, text } from '../../support/answer.ts'
import { buildTextCall } from '../../support/call.ts'
import { freezeDeep } from '../../support/freeze.ts'
import { testGateway } from '../../support/gateway.ts'

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
})

const { origin, id } = buildTextCall()
const callBy =
  (dialect: { body: typeof converse.body; toCall: unknown }, messages: object[]) =>
  (more: object): TextCall => {
    const body = requireValid(dialect.body, { messages, ...more }) as object
    const context = { id, origin, session_id: null, betas: ['beta-1'] }
    const toCall = dialect.toCall as typeof converse.toCall
    const whole = { model: 'acme/small', stream: false, ...body } as never
    return toCall(gateway, getOperator(gateway), freezeDeep(whole), context)
  }
const callOf = callBy(converse, [{ role: 'user', content: [{ text: 'Hi' }] }])
const invokedOf = callBy(invoke, [{ role: 'user', content: 'Hi' }])
const blocksOf = (...content: object[]) =>
  callOf({ messages: [{ role: 'user', content }] }).messages[0]?.blocks
const resultOf = (...content: object[]) =>
  blocksOf({ toolResult: { toolUseId: 'call_1', content } })

describe('features of Anthropic’s API', () => {
  test('are named in the body of an invocation, beside those of the header', () => {
    const { betas, extra } = invokedOf({
      anthropic_version: 'bedrock-2023-05-31',
      anthropic_beta: ['interleaved-thinking-2025-05-14', 'not one, but two', 7],
    })
    expect(betas).toEqual(['beta-1', 'interleaved-thinking-2025-05-14'])
    expect(extra).toEqual({})
  })

  test('are named among the fields of a model', () => {
    const { betas, extra } = callOf({
      additionalModelRequestFields: { anthropic_beta: ['context-1m-2025-08-07'] },
    })
    expect(betas).toEqual(['beta-1', 'context-1m-2025-08-07'])
    expect(extra).toEqual({})
  })
})

describe('the fields of a model', () => {
  test('stand where Converse’s own say nothing', () => {
    const { tools, params } = callOf({
      additionalModelRequestFields: {
        tools: [{ type: 'bash_20250124', name: 'bash' }],
        tool_choice: { type: 'any' },
        ...{ max_tokens: 7, stop_sequences: ['END'], top_k: 3 },
      },
    })
    expect(tools).toMatchObject([{ type: 'other', value: { name: 'bash' } }])
    expect(params).toMatchObject({
      tool_choice: 'required',
      max_tokens: 7,
      stop: ['END'],
      top_k: 3,
    })
  })

  test('yield to Converse’s own', () => {
    const { params } = callOf({
      inferenceConfig: { maxTokens: 5 },
      additionalModelRequestFields: { max_tokens: 7 },
    })
    expect(params.max_tokens).toBe(5)
  })

  test('keep their effort beside a schema of the answer', () => {
    const schema = { type: 'object' }
    const { params } = callOf({
      additionalModelRequestFields: { output_config: { effort: 'low' } },
      outputConfig: { textFormat: { structure: { jsonSchema: { schema: '{"type":"object"}' } } } },
    })
    expect(params.reasoning).toEqual({ effort: 'low' })
    expect(params.response_format).toMatchObject({ json_schema: { schema } })
  })
})

describe('content', () => {
  const source = { bytes: 'AAAA' }

  test('may be a video or a sound, also of a tool', () => {
    const blocks = [
      { type: 'video', url: 'data:video/quicktime;base64,AAAA' },
      { type: 'audio', data: 'AAAA', format: 'mp3' },
    ]
    const given = [{ video: { format: 'mov', source } }, { audio: { format: 'mp3', source } }]
    expect(blocksOf(...given)).toEqual(blocks as never)
    expect(resultOf(...given)).toEqual(blocks as never)
  })

  test('of a document made of blocks is kept, with what it is for', () => {
    const document = {
      ...{ name: 'Notes', context: 'Of a meeting', citations: { enabled: true } },
      source: { content: [{ text: 'One' }, { text: 'Two' }] },
    }
    expect(blocksOf({ document })).toMatchObject([
      {
        type: 'other',
        value: {
          ...{ type: 'document', title: 'Notes', context: 'Of a meeting' },
          citations: { enabled: true },
          source: {
            type: 'content',
            content: [
              { type: 'text', text: 'One' },
              { type: 'text', text: 'Two' },
            ],
          },
        },
      },
    ])
  })

  test('of a tool may have a cache point', () => {
    expect(resultOf({ text: 'One' }, { cachePoint: { type: 'default' } })).toEqual([
      { type: 'text', text: 'One', cache_control: { type: 'ephemeral' } },
    ])
  })

  test('may be found by a search', () => {
    const searchResult = { source: 'a.md', title: 'A', content: [{ text: 'One' }] }
    expect(blocksOf({ searchResult })).toMatchObject([
      { type: 'other', value: { type: 'search_result', source: 'a.md', title: 'A' } },
    ])
  })

  test('with citations is said again as text', () => {
    const citationsContent = { content: [{ text: 'One ' }, { text: 'two' }], citations: [] }
    expect(blocksOf({ citationsContent })).toEqual([{ type: 'text', text: 'One two' }])
    const citations = LOCATIONS.map(([, citation]) => citation)
    expect(blocksOf({ citationsContent: { content: [{ text: 'One' }], citations } })).toEqual([
      {
        type: 'text',
        text: 'One',
        // The web's have lost their proof.
        extra: { citations: LOCATIONS.slice(0, -1).map(([citation]) => citation) },
      },
    ])
  })

  test('to be guarded may be a picture', () => {
    expect(blocksOf({ guardContent: { image: { format: 'png', source } } })).toMatchObject([
      { type: 'image' },
    ])
  })
})

/** Citations of the Messages API, and what they are to Converse. */
const LOCATIONS: [Json, Json][] = [
  ...(
    [
      ['char_location', 'char_index', 'documentChar'],
      ['page_location', 'page_number', 'documentPage'],
      ['content_block_location', 'block_index', 'documentChunk'],
    ] as const
  ).map(([type, unit, name]): [Json, Json] => [
    {
      ...{ type, cited_text: 'one', document_title: 'A', document_index: 1 },
      ...{ [`start_${unit}`]: 2, [`end_${unit}`]: 3 },
    },
    {
      ...{ title: 'A', sourceContent: [{ text: 'one' }] },
      location: { [name]: { documentIndex: 1, start: 2, end: 3 } },
    },
  ]),
  [
    {
      ...{ type: 'search_result_location', cited_text: 'one', source: 'a.md', title: 'A' },
      ...{ search_result_index: 1, start_block_index: 2, end_block_index: 3 },
    },
    {
      ...{ title: 'A', source: 'a.md', sourceContent: [{ text: 'one' }] },
      location: { searchResultLocation: { searchResultIndex: 1, start: 2, end: 3 } },
    },
  ],
  [
    {
      ...{ type: 'web_search_result_location', cited_text: 'one', title: 'A' },
      ...{ url: 'https://a.example/b', encrypted_index: 'x' },
    },
    {
      ...{ title: 'A', sourceContent: [{ text: 'one' }] },
      location: { web: { url: 'https://a.example/b', domain: 'a.example' } },
    },
  ],
]

describe('an answer', () => {
  const cite = (citation: Json): TextPart[] => [
    { type: 'annotation', choice: 0, citation } as TextPart,
  ]
  const answerOf = () =>
    createAnswer<'text'>(
      [start, text('Hi')],
      ...LOCATIONS.map(([citation]) => cite(citation)),
      [{ ...finish, sequence: 'END' } as TextPart],
      [receipt],
    )

  test('has citations in Converse’s form, whole and streamed', async () => {
    const citations = LOCATIONS.map(([, citation]) => citation)
    const whole = (await converse.collectResponse(answerOf(), callOf({}), {} as never)) as Json
    expect(readObject(readObject(whole, 'output'), 'message').content).toEqual([
      { citationsContent: { content: [{ text: 'Hi' }], citations } },
    ])
    const frames = await readFrames(answerOf(), {})
    const deltas = frames.map(([, data]) => readObject(data, 'delta'))
    expect(deltas.flatMap(({ citation }) => citation ?? [])).toEqual(citations)
  })

  test('shows pictures as blocks, and in words what has no block, whole and streamed', async () => {
    const svg = 'data:image/svg+xml;base64,AAAA'
    const given = (): Answer<'text'> =>
      createAnswer<'text'>(
        [start, text('Hi'), { type: 'image', choice: 0, url: 'data:image/png;base64,AAAA' }],
        [{ type: 'image', choice: 0, url: svg }, finish],
        [receipt],
      )
    const source = { bytes: 'AAAA' }
    const whole = (await converse.collectResponse(given(), callOf({}), {} as never)) as Json
    expect(readObject(readObject(whole, 'output'), 'message').content).toEqual([
      { text: 'Hi' },
      { image: { format: 'png', source } },
      { text: `![image](${svg})` },
    ])
    const frames = await readFrames(given(), {})
    expect(frames.filter(([, { contentBlockIndex }]) => contentBlockIndex === 1)).toEqual([
      ['contentBlockStart', { contentBlockIndex: 1, start: { image: { format: 'png' } } }],
      ['contentBlockDelta', { contentBlockIndex: 1, delta: { image: { source } } }],
      ['contentBlockStop', { contentBlockIndex: 1 }],
    ])
  })

  test('has the fields of its model that are asked for, at their places', async () => {
    const collect = async (...additionalModelResponseFieldPaths: string[]) =>
      converse.collectResponse(answerOf(), callOf({}), {
        additionalModelResponseFieldPaths,
      } as never) as Promise<Json>
    expect(
      await collect(
        '/stop_sequence',
        '/usage/input_tokens',
        '/none',
        '/content/0',
        '/toString',
        '/',
      ),
    ).toMatchObject({
      stopReason: 'stop_sequence',
      additionalModelResponseFields: {
        stop_sequence: 'END',
        usage: { input_tokens: expect.any(Number) },
      },
    })
    expect(await collect('/none')).not.toHaveProperty('additionalModelResponseFields')
    const paths = { additionalModelResponseFieldPaths: ['/delta/stop_sequence'] }
    const [, stop] =
      (await readFrames(answerOf(), paths)).find(([name]) => name === 'messageStop') ?? []
    expect(stop).toEqual({
      stopReason: 'stop_sequence',
      additionalModelResponseFields: { delta: { stop_sequence: 'END' } },
    })
    expect(() => callOf({ additionalModelResponseFieldPaths: ['stop_sequence'] })).toThrow(
      'additionalModelResponseFieldPaths.0',
    )
  })
})

/** Reads the frames of an answer as `converse-stream` writes them. */
async function readFrames(answer: Answer<'text'>, body: Json): Promise<[string, Json][]> {
  const scanner = new AwsEventStreamScanner()
  const events = converseStream.streaming?.streamEvents(answer, callOf({}), body as never)
  const texts = await Array.fromAsync({
    [Symbol.asyncIterator]: () => events as AsyncIterator<string>,
  })
  return texts
    .flatMap(one => scanner.feed(Buffer.from(one, 'latin1')))
    .map(({ event, data }) => [event ?? '', JSON.parse(data)])
}

describe('what no call says', () => {
  test('is named', () => {
    const { leftOut } = callOf({
      performanceConfig: { latency: 'optimized' },
      promptVariables: { name: { text: 'Ada' } },
      toolConfig: { tools: [{ systemTool: { name: 'nova_grounding' } }] },
    })
    expect(leftOut).toEqual([
      ...['performanceConfig', 'promptVariables'],
      'toolConfig.tools.0.systemTool',
    ])
    expect(callOf({}).leftOut).toBeUndefined()
  })

  test('of the request is its trace', () => {
    expect(callOf({ requestMetadata: { team: 'a' } }).trace).toEqual({ team: 'a' })
    expect(callOf({ requestMetadata: { team: 'a' }, trace: { b: 1 } }).trace).toEqual({ b: 1 })
  })

  test('is refused where it protects', () => {
    expect(() => callOf({ guardrailConfig: { guardrailIdentifier: 'g' } })).toThrow(
      'guardrailConfig: expected none',
    )
    expect(callOf({ guardrailConfig: null }).leftOut).toBeUndefined()
  })
})

test('an answer says how long its call took, from its start', async () => {
  const now = spyOn(performance, 'now').mockReturnValue(1_000)
  try {
    const call = callOf({})
    now.mockReturnValue(1_250)
    const answer = createAnswer<'text'>([start, text('Hi')], [finish], [receipt])
    const whole = await converse.collectResponse(answer, call, {} as never)
    expect(whole).toMatchObject({ metrics: { latencyMs: 250 } })
  } finally {
    now.mockRestore()
  }
})
