import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import { moveNamesIntoText } from '../../../../src/language/message.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import type { Endpoint } from '../../../../src/resources/models/catalog.ts'
import type { ChatRequest } from '../../../../src/translation/dialects/chat/schema.ts'
import { chat } from '../../../../src/translation/dialects/chat.ts'
import { buildRequest } from '../../../../src/translation/protocols/bedrock-converse/request.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'
import { testGateway } from '../../../support/gateway.ts'

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
})

const SONNET_45 = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
const SONNET_4 = 'us.anthropic.claude-sonnet-4-20250514-v1:0'
const NEWEST = 'global.anthropic.claude-opus-5-5'
const NOVA = 'us.amazon.nova-pro-v1:0'
const NOVA_2 = 'us.amazon.nova-2-lite-v1:0'
const LLAMA = 'us.meta.llama3-3-70b-instruct-v1:0'
const GPT_OSS = 'openai.gpt-oss-120b-1:0'
const MISTRAL = 'mistral.mistral-large-2402-v1:0'

const { origin, id } = buildTextCall()
const callOf = (body: object, betas: string[] = []): TextCall =>
  chat.toCall(
    gateway,
    getOperator(gateway),
    { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }], ...body } as ChatRequest,
    {
      id,
      origin,
      session_id: null,
      betas,
    },
  )

const at = (upstreamModel: string, more: Partial<Endpoint> = {}) =>
  buildEndpoint({ protocol: 'bedrock-converse', upstreamModel, ...more })

/** A request body and a block in it, as far as the tests look at them. */
interface Sent {
  [name: string]: unknown
  system?: Block[]
  messages: { role: string; content: Block[] }[]
  toolConfig?: { tools: Block[]; toolChoice?: unknown }
  inferenceConfig?: { maxTokens?: number; [name: string]: unknown }
  additionalModelRequestFields?: {
    thinking?: { budget_tokens?: number; type?: string }
    [name: string]: unknown
  }
  additionalModelResponseFieldPaths?: string[]
  outputConfig?: unknown
  serviceTier?: unknown
}

interface Block {
  [name: string]: unknown
  text?: string
  document?: { format: string; name: string; source: unknown }
  toolSpec?: { name: string; [name: string]: unknown }
  toolUse?: { toolUseId: string; name: string; input: unknown }
  toolResult?: { toolUseId: string; content: Block[]; status?: string }
}

/** Returns the body that Bedrock receives for a chat request. */
const sent = (body: object, model = SONNET_4): Sent => bodyOf(callOf(body), model)
const bodyOf = (call: TextCall, model = SONNET_4) =>
  buildRequest(call, at(model)).body as unknown as Sent

/** Returns the content of each message that Bedrock receives. */
const contents = (messages: object[], model = SONNET_4): Block[][] =>
  sent({ messages }, model).messages.map(one => one.content)

const user = (content: unknown) => ({ role: 'user', content })
const calling = (...calls: [id: string, name: string, input?: string][]) => ({
  role: 'assistant',
  content: null,
  tool_calls: calls.map(([id, name, input = '{}']) => ({
    id,
    type: 'function',
    function: { name, arguments: input },
  })),
})

const answering = (tool_call_id: string, content: unknown) => ({
  role: 'tool',
  tool_call_id,
  content,
})

const tool = (name: string, more: object = {}) => ({
  type: 'function',
  function: {
    name,
    description: `Does ${name}`,
    parameters: { type: 'object', properties: { x: { type: 'integer' } } },
    ...more,
  },
})

const spec = (name: string) => ({
  toolSpec: {
    name,
    description: `Does ${name}`,
    inputSchema: { json: { type: 'object', properties: { x: { type: 'integer' } } } },
  },
})

const schema = {
  type: 'object',
  properties: { value: { type: 'string' } },
  required: ['value'],
  additionalProperties: false,
}

const asJson = {
  response_format: {
    type: 'json_schema',
    json_schema: { name: 'it', description: 'A value', schema },
  },
}

const thrown = (act: () => unknown): unknown => {
  try {
    act()
  } catch (error) {
    return error instanceof GatewayError ? error.type : error
  }
  return 'nothing'
}

describe('the request', () => {
  test('a plain call has only messages', () => {
    expect(buildRequest(callOf({}), at(SONNET_4))).toEqual({
      path: '/model/us.anthropic.claude-sonnet-4-20250514-v1%3A0/converse',
      body: { messages: [{ role: 'user', content: [{ text: 'Hi' }] }] },
    })
  })

  test('a streamed call has its own path, in which an ARN is one segment', () => {
    const arn =
      'arn:aws:bedrock:us-east-1:123456789012:inference-profile/' +
      'us.anthropic.claude-sonnet-4-20250514-v1:0'
    const { path, body } = buildRequest(callOf({ stream: true }), at(arn))
    expect(path).toBe(
      '/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2F' +
        'us.anthropic.claude-sonnet-4-20250514-v1%3A0/converse-stream',
    )
    expect(body).not.toHaveProperty('stream')
  })

  test('trap 12: leaves the call unchanged', () => {
    const call = callOf({
      messages: [
        { role: 'system', content: 'Be' },
        user('Hi '),
        { role: 'assistant', content: 'So ' },
      ],
      tools: [tool('add')],
    })
    const before = structuredClone(call)
    buildRequest(call, at(SONNET_4))
    expect(call).toEqual(before)
  })

  test('passes on unknown parameters, which cannot overwrite known ones', () => {
    const guardrailConfig = { guardrailIdentifier: 'g', guardrailVersion: '1' }
    const unknown = {
      guardrailConfig,
      performanceConfig: { latency: 'optimized' },
      requestMetadata: { a: 'b' },
    }
    const own = {
      inferenceConfig: { maxTokens: 1, other: 2 },
      additionalModelRequestFields: { top_k: 1, other: 3 },
    }
    expect(sent({ ...unknown, ...own, max_tokens: 50, top_k: 7 })).toEqual({
      ...unknown,
      messages: [{ role: 'user', content: [{ text: 'Hi' }] }],
      inferenceConfig: { maxTokens: 50, other: 2 },
      additionalModelRequestFields: { top_k: 7, other: 3 },
    })
  })

  test('trap 57: omits parameters of the gateway and the end user', () => {
    const ours = {
      user: 'u',
      session_id: 's',
      trace: { a: 'b' },
      provider: { sort: 'price' },
      models: ['acme/small'],
      n: 1,
    }
    const body = sent(ours)
    for (const name of Object.keys(ours)) if (name !== 'n') expect(body).not.toHaveProperty(name)
  })

  test.each([
    ['flex', { type: 'flex' }],
    ['priority', { type: 'priority' }],
    ['default', { type: 'default' }],
    ['auto', undefined],
  ])('the tier %s is %p', (service_tier, expected) => {
    expect(sent({ service_tier }).serviceTier).toEqual(expected)
  })
})

describe('the conversation', () => {
  test('trap 5, 6: collects instructions into the system prompt', () => {
    const body = sent({
      messages: [
        { role: 'system', content: 'Be brief.' },
        user('Hi'),
        { role: 'developer', content: 'Be kind.' },
      ],
    })
    expect(body.system).toEqual([{ text: 'Be brief.' }, { text: 'Be kind.' }])
    expect(body.messages).toHaveLength(1)
  })

  test('trap 10: merges neighbouring messages of one side', () => {
    expect(contents([user('One'), user('Two')])).toEqual([[{ text: 'One' }, { text: 'Two' }]])
  })

  test('starts with the user, and sends instructions alone as the user’s message', () => {
    const begun = sent({ messages: [{ role: 'assistant', content: 'Hello!' }, user('Hi')] })
    expect(begun.messages.map(one => one.role)).toEqual(['user', 'assistant', 'user'])
    expect(sent({ messages: [{ role: 'system', content: 'Say hi.' }] })).toEqual({
      messages: [{ role: 'user', content: [{ text: 'Say hi.' }] }],
    })
  })

  test('trap 7, 8, 9: omits empty content', () => {
    const told = contents([
      user([
        { type: 'text', text: '' },
        { type: 'text', text: 'Hi' },
      ]),
      { role: 'assistant', content: ' ' },
      user('So?'),
    ])
    expect(told).toEqual([[{ text: 'Hi' }, { text: 'So?' }]])
    const refused = [user('Hi'), { role: 'assistant', content: 'No.', refusal: '' }, user('So?')]
    expect(contents(refused)[1]).toEqual([{ text: 'No.' }])
  })

  test('trap 11: trims white space from the end of a prefill, and refuses it elsewhere', () => {
    const messages = [user('Hi'), { role: 'assistant', content: 'Well \n' }]
    expect(contents(messages).at(-1)).toEqual([{ text: 'Well' }])
    expect(contents(messages, NOVA).at(-1)).toEqual([{ text: 'Well' }])
    for (const model of [NEWEST, LLAMA, GPT_OSS])
      expect(thrown(() => sent({ messages }, model))).toBe('invalid_request')
  })

  test('trap 12: prefixes the text with the name', () => {
    const call = callOf({ messages: [{ role: 'user', content: 'Hi', name: 'Ann' }] })
    const body = bodyOf({ ...call, messages: moveNamesIntoText(call.messages) })
    expect(body.messages[0]?.content).toEqual([{ text: 'Ann: Hi' }])
  })
})

describe('media', () => {
  test.each([
    ['image/png', 'png'],
    ['image/jpeg', 'jpeg'],
    ['image/jpg', 'jpeg'],
    ['image/gif', 'gif'],
    ['image/webp', 'webp'],
  ])('sends an image of %s as bytes', (type, format) => {
    const content = [
      { type: 'image_url', image_url: { url: `data:${type};base64,QUJD`, detail: 'low' } },
    ]
    expect(contents([user(content)])).toEqual([[{ image: { format, source: { bytes: 'QUJD' } } }]])
  })

  test('trap 13: refuses other kinds of images, and images by URL', () => {
    const picture = (url: string) => () =>
      sent({ messages: [user([{ type: 'image_url', image_url: { url } }])] })
    expect(thrown(picture('data:image/tiff;base64,QUJD'))).toBe('unsupported_image_format')
    expect(thrown(picture('https://a.example/a.png'))).toBe('invalid_request')
    expect(thrown(picture('s3://bucket/a.png'))).toBe('invalid_request')
    expect(thrown(picture('data:image/png;base64,!!'))).toBe('invalid_image')
  })

  test('sends video and audio as bytes', () => {
    const content = [
      { type: 'video_url', video_url: { url: 'data:video/quicktime;base64,QUJD' } },
      { type: 'input_audio', input_audio: { data: 'QUJD', format: 'wav' } },
    ]
    expect(contents([user(content)], NOVA)).toEqual([
      [
        { video: { format: 'mov', source: { bytes: 'QUJD' } } },
        { audio: { format: 'wav', source: { bytes: 'QUJD' } } },
      ],
    ])
    expect(
      thrown(() =>
        sent({
          messages: [
            user([{ type: 'input_audio', input_audio: { data: 'QUJD', format: 'midi' } }]),
          ],
        }),
      ),
    ).toBe('invalid_request')
  })

  const file = (filename: string | undefined, file_data: string) => ({
    type: 'file',
    file: { ...(filename ? { filename } : {}), file_data },
  })
  const documents = (content: object[]) =>
    contents([user(content)])
      .flat()
      .flatMap(block => (block.document ? [block.document] : []))

  test('trap 18: gives documents valid and unique names', () => {
    const pdf = 'data:application/pdf;base64,QUJD'
    const names = [
      'Q3_report: final  (v2).pdf',
      'Q3/report; final (v2).pdf',
      'ünï.pdf',
      undefined,
      'a'.repeat(400),
    ]
    const given = documents(names.map(name => file(name, pdf)))
    expect(given.slice(0, 4).map(one => one.name)).toEqual([
      'Q3 report final (v2)',
      'Q3 report final (v2) (2)',
      'n',
      'document',
    ])
    for (const { name } of given) {
      expect(name).toMatch(/^[a-zA-Z0-9()[\]-]+( [a-zA-Z0-9()[\]-]+)*$/)
      expect(name.length).toBeLessThanOrEqual(200)
    }
    expect(new Set(given.map(one => one.name)).size).toBe(given.length)
  })

  test.each([
    ['application/pdf', 'a', 'pdf'],
    ['text/csv', 'a', 'csv'],
    ['text/markdown', 'a', 'md'],
    ['text/x-python', 'a.py', 'txt'],
    ['application/json', 'a.json', 'txt'],
    ['application/octet-stream', 'a.docx', 'docx'],
    ['application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', 'a', 'xlsx'],
  ])('sends a file of %s called %s as a document of the format %s', (type, name, format) => {
    expect(documents([file(name, `data:${type};base64,QUJD`)])).toMatchObject([
      { format, source: { bytes: 'QUJD' } },
    ])
  })

  test('adds text beside a document', () => {
    const pdf = file('a.pdf', 'data:application/pdf;base64,QUJD')
    expect(contents([user([pdf])])[0]?.map(block => Object.keys(block)[0])).toEqual([
      'text',
      'document',
    ])
    expect(contents([user([{ type: 'text', text: 'Read' }, pdf])])[0]).toHaveLength(2)
  })

  test('sends an image file as an image, and refuses file ids and unknown kinds', () => {
    expect(contents([user([file('a.png', 'data:image/png;base64,QUJD')])])).toEqual([
      [{ image: { format: 'png', source: { bytes: 'QUJD' } } }],
    ])
    expect(
      thrown(() => sent({ messages: [user([{ type: 'file', file: { file_id: 'f' } }])] })),
    ).toBe('invalid_request')
    expect(
      thrown(() =>
        sent({ messages: [user([file('a.exe', 'data:application/x-msdownload;base64,QUJD')])] }),
      ),
    ).toBe('invalid_request')
  })

  test('trap 17: refuses unknown content instead of dropping it', () => {
    expect(thrown(() => sent({ messages: [user([{ type: 'hologram', data: 'x' }])] }))).toBe(
      'invalid_request',
    )
  })
})

describe('tools', () => {
  test('renders tool specs and the choice', () => {
    const tools = [tool('add'), tool('sub', { parameters: undefined, description: '' })]
    const toolConfig = {
      tools: [
        spec('add'),
        { toolSpec: { name: 'sub', inputSchema: { json: { type: 'object', properties: {} } } } },
      ],
    }
    expect(sent({ tools }).toolConfig).toEqual(toolConfig)
    expect(sent({ tools, tool_choice: 'auto' }).toolConfig).toEqual(toolConfig)
    expect(sent({ tools, tool_choice: 'required' }).toolConfig).toEqual({
      ...toolConfig,
      toolChoice: { any: {} },
    })
    expect(
      sent({ tools, tool_choice: { type: 'function', function: { name: 'add' } } }).toolConfig,
    ).toEqual({
      ...toolConfig,
      toolChoice: { tool: { name: 'add' } },
    })
  })

  test.each([NEWEST, LLAMA])(
    'trap 28: offers only the requested tool to %s, which cannot be forced',
    model => {
      const tools = [tool('add'), tool('sub')]
      expect(sent({ tools, tool_choice: 'required' }, model).toolConfig).toEqual({
        tools: [spec('add'), spec('sub')],
      })
      expect(
        sent({ tools, tool_choice: { type: 'function', function: { name: 'sub' } } }, model)
          .toolConfig,
      ).toEqual({
        tools: [spec('sub')],
      })
    },
  )

  test('trap 27: omits the tools for the choice none', () => {
    expect(sent({ tools: [tool('add')], tool_choice: 'none' })).not.toHaveProperty('toolConfig')
  })

  test('trap 4: lists removed tools for a conversation that contains calls', () => {
    const messages = [user('Add'), calling(['a', 'add.up']), answering('a', '3'), user('Thanks')]
    const gone = {
      tools: [
        {
          toolSpec: {
            name: 'add_up',
            description: 'This tool is gone. Do not call it.',
            inputSchema: { json: { type: 'object', properties: {} } },
          },
        },
      ],
    }
    expect(sent({ messages }).toolConfig).toEqual(gone)
    expect(sent({ messages, tools: [tool('add.up')], tool_choice: 'none' }).toolConfig).toEqual(
      gone,
    )
    expect(sent({ messages, tools: [tool('add.up')] }).toolConfig?.tools).toEqual([
      { toolSpec: { ...spec('add.up').toolSpec, name: 'add_up' } },
    ])
  })

  test('trap 30: disables parallel calls for Claude, and adds a choice if needed', () => {
    const tools = [tool('add')]
    const field = (body: object, model?: string) =>
      sent({ tools, parallel_tool_calls: false, ...body }, model).additionalModelRequestFields
    expect(field({})).toEqual({ tool_choice: { type: 'auto', disable_parallel_tool_use: true } })
    expect(field({ tool_choice: 'required' })).toEqual({
      tool_choice: { type: 'any', disable_parallel_tool_use: true },
    })
    expect(sent({ tools, parallel_tool_calls: false, tool_choice: 'required' }).toolConfig).toEqual(
      { tools: [spec('add')] },
    )
    expect(field({}, NOVA)).toBeUndefined()
  })

  test('trap 1, 21, 22: fits ids and names, and puts results first', () => {
    const long = `call_${'x'.repeat(40)}|fc_${'y'.repeat(40)}`
    const told = contents([
      user('Add'),
      calling(['functions.add:0', 'math/add', '{"x":1}'], [long, 'math/add']),
      answering(long, 'four'),
      answering('functions.add:0', 'three'),
      user('So?'),
    ])
    const [first, second] = (told[1] ?? []).map(block => block.toolUse)
    expect(first).toEqual({
      toolUseId: expect.stringMatching(/^[a-zA-Z0-9_-]{1,64}$/),
      name: 'math_add',
      input: { x: 1 },
    })
    expect(second?.toolUseId).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
    expect(told[2]).toEqual([
      { toolResult: { toolUseId: first?.toolUseId ?? '', content: [{ text: 'three' }] } },
      { toolResult: { toolUseId: second?.toolUseId ?? '', content: [{ text: 'four' }] } },
      { text: 'So?' },
    ])
  })

  test('trap 21: uses ids of nine letters for Mistral', () => {
    const told = contents(
      [
        user('Add'),
        calling(['tooluse_bpe71yCfRu2b5i', 'add']),
        answering('tooluse_bpe71yCfRu2b5i', '3'),
      ],
      MISTRAL,
    )
    expect(told[1]?.[0]?.toolUse?.toolUseId).toMatch(/^[a-zA-Z0-9]{9}$/)
    expect(told[2]?.[0]?.toolResult?.toolUseId).toBe(told[1]?.[0]?.toolUse?.toolUseId)
  })

  test('trap 2, 3: pairs every call with a result, and every result with a call', () => {
    const told = contents([
      user('Add'),
      calling(['a', 'add'], ['b', 'add']),
      answering('a', '3'),
      answering('z', 'lost'),
    ])
    const results = told[2]?.flatMap(block => (block.toolResult ? [block.toolResult] : []))
    expect(results?.map(one => [one.toolUseId, one.status])).toEqual([
      ['a', undefined],
      ['b', 'error'],
    ])
    expect(told[2]?.at(-1)).toEqual({ text: 'lost' })
  })

  test('trap 23, 24, 26: sends arguments as an exact object, or as invalid JSON', () => {
    const inputs = ['', '{"id":123456789012345678901}', '{"x":', '[1]']
    const call = callOf({
      messages: [
        user('Add'),
        calling(...inputs.map((input, i): [string, string, string] => [`t${i}`, 'add', input])),
      ],
    })
    const json = JSON.stringify(buildRequest(call, at(SONNET_4)).body)
    expect(json).toContain('"input":{}')
    expect(json).toContain('"input":{"id":123456789012345678901}')
    expect(json).toContain('"input":{"INVALID_JSON":"{\\"x\\":"}')
    expect(json).toContain('"input":{"INVALID_JSON":"[1]"}')
  })

  test('trap 16: keeps the image of a tool within its result', () => {
    const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,QUJD' } }
    const told = contents([
      user('Look'),
      calling(['a', 'look']),
      answering('a', [{ type: 'text', text: 'Here' }, picture]),
    ])
    expect(told[2]).toEqual([
      {
        toolResult: {
          toolUseId: 'a',
          content: [{ text: 'Here' }, { image: { format: 'png', source: { bytes: 'QUJD' } } }],
        },
      },
    ])
  })

  test('marks failed results for the models that accept it', () => {
    const failed = (model: string) => {
      const call = callOf({ messages: [user('Add'), calling(['a', 'add']), answering('a', 'no')] })
      const messages = call.messages.map(turn =>
        turn.role === 'tool' ? { ...turn, is_error: true } : turn,
      )
      const body = bodyOf({ ...call, messages }, model)
      return body.messages[2]?.content[0]?.toolResult?.status
    }
    expect([SONNET_4, NOVA, LLAMA].map(failed)).toEqual(['error', 'error', undefined])
  })

  test('trap 35: refuses other kinds of tools by name', () => {
    expect(() => sent({ tools: [{ type: 'file_search' }] })).toThrow(
      'tools.0: file_search is a tool that this model',
    )
  })
})

describe('cache points', () => {
  const marked = (text: string, ttl?: string) => ({
    type: 'text',
    text,
    cache_control: { type: 'ephemeral', ...(ttl ? { ttl } : {}) },
  })
  const point = { cachePoint: { type: 'default' } }
  const hour = { cachePoint: { type: 'default', ttl: '1h' } }
  const body = {
    messages: [
      { role: 'system', content: [marked('Be', '1h')] },
      user([marked('Hi'), { type: 'text', text: 'you' }]),
    ],
    tools: [{ ...tool('add'), cache_control: { type: 'ephemeral' } }],
  }

  test('follow marked blocks', () => {
    const { system, messages, toolConfig } = sent(body, SONNET_45)
    expect(system).toEqual([{ text: 'Be' }, hour])
    expect(messages[0]?.content).toEqual([{ text: 'Hi' }, point, { text: 'you' }])
    expect(toolConfig?.tools).toEqual([spec('add'), point])
  })

  test('trap 55: are omitted for models that refuse all, those of tools, or an hour', () => {
    for (const model of [LLAMA, 'anthropic.claude-3-sonnet-20240229-v1:0', 'arcee-supernova'])
      expect(JSON.stringify(sent(body, model))).not.toContain('cachePoint')
    const nova = sent(body, NOVA)
    expect(nova.system).toEqual([{ text: 'Be' }, point])
    expect(nova.toolConfig?.tools).toEqual([spec('add')])
    expect(sent(body, SONNET_4).system).toEqual([{ text: 'Be' }, point])
  })

  test('follow a result, for its own marker or one inside', () => {
    const messages = [
      user('Add'),
      calling(['a', 'add']),
      answering('a', [marked('3')]),
      user('So?'),
    ]
    const told = contents(messages)
    expect(told[2]).toEqual([
      { toolResult: { toolUseId: 'a', content: [{ text: '3' }] } },
      point,
      { text: 'So?' },
    ])
  })

  test('end the conversation for the automatic marker', () => {
    expect(sent({ cache_control: { type: 'ephemeral' } }).messages[0]?.content).toEqual([
      { text: 'Hi' },
      point,
    ])
  })

  test('trap 55: are the last four at most', () => {
    const many = {
      messages: [
        { role: 'system', content: [marked('Be')] },
        user(['a', 'b', 'c', 'd'].map(text => marked(text))),
      ],
      cache_control: { type: 'ephemeral' },
    }
    const { system, messages } = sent(many)
    expect(system).toEqual([{ text: 'Be' }])
    expect(messages[0]?.content).toEqual(['a', 'b', 'c', 'd'].flatMap(text => [{ text }, point]))
  })
})

describe('parameters', () => {
  test('have Converse’s names, and are omitted without an equivalent', () => {
    const given = {
      max_tokens: 100,
      temperature: 0.5,
      stop: 'END',
      seed: 1,
      logit_bias: { 1: 1 },
      frequency_penalty: 1,
      presence_penalty: 1,
      min_p: 0.1,
      logprobs: true,
    }
    const { messages: _, ...parameters } = sent(given, NOVA)
    expect(parameters).toEqual({
      inferenceConfig: { maxTokens: 100, temperature: 0.5, stopSequences: ['END'] },
    })
  })

  test('trap 49: clamps temperature to 1, and prefers it to top_p where they conflict', () => {
    expect(sent({ temperature: 2, top_p: 0.5 }).inferenceConfig).toEqual({
      temperature: 1,
      topP: 0.5,
    })
    expect(sent({ temperature: 2, top_p: 0.5 }, SONNET_45).inferenceConfig).toEqual({
      temperature: 1,
    })
    expect(sent({ temperature: 1.5, top_p: 0.5 }, NOVA).inferenceConfig).toEqual({
      temperature: 1,
      topP: 0.5,
    })
    expect(sent({ temperature: 1, top_p: 0.5 }, NEWEST)).not.toHaveProperty('inferenceConfig')
    expect(sent({ temperature: 1, stop: 'x' }, 'us.openai.gpt-5.6')).not.toHaveProperty(
      'inferenceConfig',
    )
  })

  test('trap 50: omits stop sequences of white space, and all of them for gpt-oss', () => {
    expect(sent({ stop: [' ', 'END'] }).inferenceConfig).toEqual({ stopSequences: ['END'] })
    expect(sent({ stop: ['END'], temperature: 0.1 }, GPT_OSS).inferenceConfig).toEqual({
      temperature: 0.1,
    })
  })

  test('asks Claude for its stop sequence', () => {
    expect(sent({ stop: 'END' }).additionalModelResponseFieldPaths).toEqual(['/stop_sequence'])
    expect(sent({ stop: 'END', stream: true }).additionalModelResponseFieldPaths).toEqual([
      '/delta/stop_sequence',
    ])
    expect(sent({ stop: 'END' }, NOVA)).not.toHaveProperty('additionalModelResponseFieldPaths')
  })

  test.each([
    [SONNET_4, { top_k: 7 }],
    [NOVA, { inferenceConfig: { topK: 7 } }],
    ['cohere.command-r-plus-v1:0', { k: 7 }],
    [MISTRAL, { top_k: 7 }],
    [LLAMA, undefined],
  ])('top_k for %s is %p', (model, expected) => {
    expect(sent({ top_k: 7 }, model).additionalModelRequestFields).toEqual(expected)
  })

  test('trap 36: passes on the beta features that Claude on Bedrock knows', () => {
    const call = callOf({}, ['context-1m-2025-08-07', 'a-feature-of-tomorrow-2027-01-01'])
    expect(buildRequest(call, at(SONNET_4)).body.additionalModelRequestFields).toEqual({
      anthropic_beta: ['context-1m-2025-08-07'],
    })
    expect(buildRequest(call, at(NOVA)).body).not.toHaveProperty('additionalModelRequestFields')
  })
})

describe('reasoning', () => {
  const asked = (reasoning: object, model: string, more: object = {}) => {
    const { inferenceConfig, additionalModelRequestFields } = sent({ reasoning, ...more }, model)
    return { config: inferenceConfig, fields: additionalModelRequestFields }
  }

  test('trap 48, 54: is a budget below the bound for Claude models with budgets', () => {
    expect(asked({ effort: 'medium' }, SONNET_4, { max_tokens: 10_000, temperature: 0.5 })).toEqual(
      {
        config: { maxTokens: 10_000 },
        fields: { thinking: { type: 'enabled', budget_tokens: 5_000 } },
      },
    )
    const { config, fields } = asked({ max_tokens: 8_000 }, SONNET_4, { max_tokens: 500 })
    expect(fields?.thinking?.budget_tokens).toBeLessThan(config?.maxTokens ?? 0)
    expect(asked({ max_tokens: 2_000 }, SONNET_4).config?.maxTokens).toBeGreaterThan(2_000)
  })

  test('trap 54: is an effort for adaptive Claude models', () => {
    const { config, fields } = asked({ effort: 'high' }, 'us.anthropic.claude-opus-4-7')
    expect(config).toBeUndefined()
    expect(fields).toMatchObject({
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high' },
    })
  })

  test.each([
    [NOVA_2, 'low', { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'low' } }],
    [NOVA_2, 'none', { reasoningConfig: { type: 'disabled' } }],
    [GPT_OSS, 'xhigh', { reasoning_effort: 'high' }],
    [GPT_OSS, 'none', { reasoning_effort: 'low' }],
    ['us.openai.gpt-5.6', 'minimal', { reasoning: { effort: 'minimal' } }],
    [LLAMA, 'high', undefined],
    ['us.deepseek.r1-v1:0', 'high', undefined],
  ])('for %s, %s is %p', (model, effort, expected) => {
    expect(asked({ effort }, model).fields).toEqual(expected)
  })

  test('omits sampling parameters for Nova at its highest effort', () => {
    expect(
      asked({ effort: 'high' }, NOVA_2, { max_tokens: 100, temperature: 0.5, top_p: 0.5 }).config,
    ).toBeUndefined()
    expect(asked({ effort: 'low' }, NOVA_2, { max_tokens: 100 }).config).toEqual({ maxTokens: 100 })
  })

  test('trap 29: omits the thinking budget before a forced tool', () => {
    const { fields } = asked({ effort: 'high' }, SONNET_4, {
      tools: [tool('add')],
      tool_choice: 'required',
    })
    expect(fields).toBeUndefined()
  })

  test('identifies the model of an inference profile by our slug', () => {
    const arn = 'arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123'
    const endpoint = at(arn, { model: 'anthropic/claude-sonnet-4.5' })
    const { body, path } = buildRequest(
      callOf({ reasoning: { max_tokens: 2000 }, top_k: 3 }),
      endpoint,
    )
    expect(path).toContain('application-inference-profile%2Fabc123')
    expect(body.additionalModelRequestFields).toEqual({
      thinking: { type: 'enabled', budget_tokens: 2000 },
    })
    expect(buildRequest(callOf({ top_k: 3 }), at(arn)).body).not.toHaveProperty(
      'additionalModelRequestFields',
    )
  })

  const thought = (details: object[]) => [
    user('Hi'),
    { role: 'assistant', content: 'Hello', reasoning: 'Hm', reasoning_details: details },
    user('So?'),
  ]
  const claudes = [
    {
      type: 'reasoning.text',
      text: 'Hm',
      signature: 'c2ln',
      format: 'anthropic-claude-v1',
      index: 0,
    },
    { type: 'reasoning.encrypted', data: 'QUJD', format: 'anthropic-claude-v1', index: 1 },
  ]

  test('trap 93: sends Claude its thinking first, byte for byte', () => {
    expect(contents(thought(claudes))[1]).toEqual([
      { reasoningContent: { reasoningText: { text: 'Hm', signature: 'c2ln' } } },
      { reasoningContent: { redactedContent: 'QUJD' } },
      { text: 'Hello' },
    ])
  })

  test('trap 94, 95: sends a signature without text with an empty text', () => {
    for (const text of ['', null, undefined])
      expect(contents(thought([{ ...claudes[0], text }]))[1]?.[0]).toEqual({
        reasoningContent: { reasoningText: { text: '', signature: 'c2ln' } },
      })
  })

  test('trap 96: omits other models’ thinking and unsigned thinking', () => {
    expect(contents(thought(claudes), NOVA)[1]).toEqual([{ text: 'Hello' }])
    expect(
      contents(
        thought([{ type: 'reasoning.text', text: 'Hm', format: 'unknown', index: 0 }]),
        LLAMA,
      )[1],
    ).toEqual([{ text: 'Hello' }])
    expect(
      contents(
        thought([{ type: 'reasoning.text', text: 'Hm', format: 'anthropic-claude-v1', index: 0 }]),
      )[1],
    ).toEqual([{ text: 'Hello' }])
    expect(contents(thought([{ ...claudes[0], format: 'google-gemini-v1' }]))[1]).toEqual([
      { text: 'Hello' },
    ])
  })
})

describe('the answer format', () => {
  const answerTool = {
    toolSpec: { name: 'json', description: 'A value', inputSchema: { json: schema } },
  }

  test.each([SONNET_45, GPT_OSS])('trap 44: is a native schema for %s', model => {
    const { outputConfig, toolConfig } = sent(asJson, model)
    expect(toolConfig).toBeUndefined()
    expect(outputConfig).toEqual({
      textFormat: {
        type: 'json_schema',
        structure: {
          jsonSchema: { schema: JSON.stringify(schema), name: 'it', description: 'A value' },
        },
      },
    })
  })

  test('trap 46: is a forced tool for others', () => {
    expect(sent(asJson).toolConfig).toEqual({
      tools: [answerTool],
      toolChoice: { tool: { name: 'json' } },
    })
    expect(sent({ ...asJson, tools: [tool('add')] }).toolConfig).toEqual({
      tools: [spec('add'), answerTool],
      toolChoice: { any: {} },
    })
    expect(
      sent({ ...asJson, tools: [tool('add')], tool_choice: 'none' }).toolConfig?.tools,
    ).toEqual([answerTool])
  })

  test('trap 29: rules out a thinking budget before the tool', () => {
    expect(sent({ ...asJson, reasoning: { effort: 'high' } })).not.toHaveProperty(
      'additionalModelRequestFields',
    )
  })

  test.each([NEWEST, LLAMA])(
    'is a tool that %s is instructed to call, since it cannot be forced',
    model => {
      const { toolConfig, system } = sent(asJson, model)
      expect(toolConfig).toEqual({ tools: [answerTool] })
      expect(system).toEqual([{ text: 'Give your answer by calling the tool json.' }])
    },
  )

  test('avoids the names of the caller’s tools', () => {
    const { toolConfig } = sent({ ...asJson, tools: [tool('json')] })
    expect(toolConfig?.tools.map(one => one.toolSpec?.name)).toEqual(['json', 'json_answer'])
  })

  test('is a tool if a closed schema could not express arbitrary members', () => {
    const open = { type: 'object', additionalProperties: { type: 'string' } }
    const body = sent(
      { response_format: { type: 'json_schema', json_schema: { name: 'it', schema: open } } },
      SONNET_45,
    )
    expect(body).not.toHaveProperty('outputConfig')
    expect(body.toolConfig?.toolChoice).toEqual({ tool: { name: 'json' } })
  })

  test('trap 45: is a tool for any JSON from Claude, an instruction for others', () => {
    const anything = { response_format: { type: 'json_object' } }
    expect(sent(anything).toolConfig).toEqual({
      tools: [
        {
          toolSpec: {
            name: 'json',
            description: 'Answer with a JSON object.',
            inputSchema: { json: { type: 'object', additionalProperties: true } },
          },
        },
      ],
      toolChoice: { tool: { name: 'json' } },
    })
    for (const model of [NEWEST, NOVA]) {
      const { system, toolConfig } = sent(anything, model)
      expect(system?.[0]?.text).toContain('JSON')
      expect(toolConfig).toBeUndefined()
    }
  })
})
