import { beforeAll, describe, expect, spyOn, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { requireValid } from '../../../src/base/body.ts'
import type { TextCall } from '../../../src/language/call.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { converse, invoke } from '../../../src/translation/dialects/bedrock.ts'
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
  })

  test('to be guarded may be a picture', () => {
    expect(blocksOf({ guardContent: { image: { format: 'png', source } } })).toMatchObject([
      { type: 'image' },
    ])
  })
})

describe('what no call says', () => {
  test('is named', () => {
    const { leftOut } = callOf({
      performanceConfig: { latency: 'optimized' },
      promptVariables: { name: { text: 'Ada' } },
      additionalModelResponseFieldPaths: ['/stop_sequence'],
      toolConfig: { tools: [{ systemTool: { name: 'nova_grounding' } }] },
    })
    expect(leftOut).toEqual([
      ...['performanceConfig', 'promptVariables', 'additionalModelResponseFieldPaths'],
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
