import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import {
  ChunkReader,
  parseAnswer,
} from '../../../../src/translation/protocols/openai-chat/reader.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'

const call = buildTextCall()
const frame = (data: unknown) => ({
  event: null,
  data: typeof data === 'string' ? data : JSON.stringify(data),
})

/** Returns the parts of a streamed answer of these chunks, without its start. */
function streamed(...chunks: unknown[]): TextPart[] {
  const reader = new ChunkReader(call, buildEndpoint())
  return chunks.flatMap(chunk => reader.read(frame(chunk))).filter(part => part.type !== 'start')
}

/** Returns the parts of a whole answer with this message, without its start and its end. */
const whole = (message: unknown, more: object = {}) =>
  parseAnswer({ id: 'x', choices: [{ index: 0, message, ...more }] }, call, buildEndpoint()).filter(
    part => part.type !== 'start' && part.type !== 'finish',
  )

const delta = (said: unknown, more: object = {}) => ({
  id: 'x',
  choices: [{ index: 0, delta: said, ...more }],
})
const toolDelta = (...tool_calls: unknown[]) => delta({ tool_calls })

/** Returns the tool calls of these parts, each joined. */
function toolCalls(given: TextPart[]) {
  const calls: { choice: number; id: string; name: string; input: string }[] = []
  for (const part of given) {
    if (part.type === 'tool-call-start')
      calls[part.index] = { choice: part.choice, id: part.id, name: part.name, input: '' }
    const known = part.type === 'tool-call-delta' ? calls[part.index] : undefined
    if (known && part.type === 'tool-call-delta') known.input += part.input
  }
  return calls
}

describe('the beginning and the end', () => {
  test('an answer starts once, with the fields of its first chunk', () => {
    const reader = new ChunkReader(call, buildEndpoint())
    const first = { id: 'chatcmpl-1', system_fingerprint: 'fp', service_tier: 'flex', choices: [] }
    expect(reader.read(frame(first))).toEqual([
      { type: 'start', upstream_id: 'chatcmpl-1', system_fingerprint: 'fp', service_tier: 'flex' },
    ])
    expect(reader.read(frame(first))).toEqual([])
  })

  test('a first chunk without an id leaves the start to the next one', () => {
    const reader = new ChunkReader(call, buildEndpoint())
    const all = [
      { id: '', choices: [], prompt_filter_results: [] },
      delta({ content: 'Hi' }),
    ].flatMap(chunk => reader.read(frame(chunk)))
    expect(all.findLast(part => part.type === 'start')).toMatchObject({ upstream_id: 'x' })
  })

  test('only [DONE] completes an answer, and nothing after it is read', () => {
    const reader = new ChunkReader(call, buildEndpoint())
    reader.read(frame(delta({ content: 'Hi' }, { finish_reason: 'stop' })))
    expect(reader.complete).toBe(false)
    expect(reader.read(frame(' [DONE] '))).toEqual([])
    expect(reader.complete).toBe(true)
    expect(reader.read(frame(delta({ content: 'more' })))).toEqual([])
  })

  test('skips a few unreadable events, and fails at many', () => {
    const reader = new ChunkReader(call, buildEndpoint())
    for (const data of ['{', 'null', '[]', '"text"', '1'])
      expect(reader.read(frame(data))).toEqual([])
    expect(() => Array.from({ length: 30 }, () => reader.read(frame('{')))).toThrow(GatewayError)
  })

  test('throws for an error in a chunk, or in a choice', () => {
    expect(() =>
      streamed({ error: { message: 'sk-secret leaked', code: 429, type: 'x' } }),
    ).toThrow('Rate limit exceeded')
    expect(() => streamed({ error: 'sk-secret leaked' })).toThrow('Provider returned error')
    expect(() =>
      streamed({ choices: [{ index: 0, delta: {}, error: { message: 'no', code: 502 } }] }),
    ).toThrow('Provider returned error')
  })

  test('ignores a null error', () => {
    expect(streamed({ ...delta({ content: 'Hi' }), error: null })).toEqual([
      { type: 'text-delta', choice: 0, text: 'Hi' },
    ])
  })

  test.each([[null], [[]], ['text'], [{}], [{ choices: [] }], [{ choices: {} }]])(
    '%j is no whole answer',
    body => {
      expect(() => parseAnswer(body, call, buildEndpoint())).toThrow('Provider returned error')
    },
  )
})

describe('text', () => {
  test('is returned unchanged, unless it is empty or missing', () => {
    expect(
      streamed(
        delta({ content: 'Hel' }),
        delta({ content: '' }),
        delta({ content: null }),
        delta({}),
        delta({ content: 'lo' }),
      ),
    ).toEqual([
      { type: 'text-delta', choice: 0, text: 'Hel' },
      { type: 'text-delta', choice: 0, text: 'lo' },
    ])
  })

  test('may come as a list of parts', () => {
    expect(
      whole({
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      }),
    ).toEqual([{ type: 'text-delta', choice: 0, text: 'ab' }])
  })

  test('has its logprobs beside it, which are returned alone if there is no text', () => {
    const logprobs = {
      content: [{ token: 'Hi', logprob: -0.1, bytes: [72, 105], top_logprobs: [] }],
      refusal: null,
    }
    expect(streamed(delta({ content: 'Hi' }, { logprobs }))).toEqual([
      { type: 'text-delta', choice: 0, text: 'Hi', logprobs },
    ])
    expect(streamed(delta({}, { logprobs }))).toEqual([
      { type: 'text-delta', choice: 0, text: '', logprobs },
    ])
    expect(streamed(delta({ content: 'Hi' }, { logprobs: null }))).toEqual([
      { type: 'text-delta', choice: 0, text: 'Hi' },
    ])
  })

  test('a refusal is its own kind of text, with its own logprobs', () => {
    const logprobs = { content: null, refusal: [{ token: 'No' }] }
    expect(whole({ content: null, refusal: 'No' }, { logprobs })).toEqual([
      { type: 'refusal-delta', choice: 0, text: 'No', logprobs },
    ])
  })

  test('annotations, images and audio pass through', () => {
    const annotation = {
      type: 'url_citation',
      url_citation: { url: 'https://a.example', title: 'A', start_index: 0, end_index: 1 },
    }
    const images = [
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
      { image_url: {} },
      'x',
    ]
    const audio = { id: 'audio_1', data: 'AAAA', transcript: 'Hi', expires_at: 1 }
    expect(
      streamed(delta({ annotations: [annotation] }), delta({ images }), delta({ audio })),
    ).toEqual([
      { type: 'annotation', choice: 0, annotation },
      { type: 'image', choice: 0, url: 'data:image/png;base64,AA==' },
      { type: 'audio-delta', choice: 0, audio },
    ])
  })
})

describe('a choice with a delta and a message, as Perplexity sends it', () => {
  const both = (content: string, all: string) => ({
    delta: { role: 'assistant', content },
    message: { role: 'assistant', content: all },
  })
  const said = (given: TextPart[]) =>
    given.flatMap(part => (part.type === 'text-delta' ? part.text : [])).join('')

  test('is read from the message in a whole answer', () => {
    const { delta, message } = both('', 'Hi there')
    expect(said(whole(message, { delta }))).toBe('Hi there')
  })

  test('is read from the delta in a stream', () => {
    const chunks = [both('Hi', 'Hi'), both(' there', 'Hi there'), both('', 'Hi there')]
    expect(
      said(streamed(...chunks.map(choice => ({ id: 'x', choices: [{ index: 0, ...choice }] })))),
    ).toBe('Hi there')
  })
})

describe('reasoning', () => {
  const detail = {
    type: 'reasoning.text',
    text: 'hm',
    signature: 's',
    format: 'anthropic-claude-v1',
    index: 0,
  }

  test('is read under each of its three names', () => {
    expect(whole({ reasoning: 'hm' })).toEqual([
      { type: 'reasoning-delta', choice: 0, text: 'hm', details: [] },
    ])
    expect(whole({ reasoning_content: 'hm' })).toEqual([
      { type: 'reasoning-delta', choice: 0, text: 'hm', details: [] },
    ])
    expect(whole({ reasoning_details: [detail] })).toEqual([
      { type: 'reasoning-delta', choice: 0, text: '', details: [detail] },
    ])
  })

  test('is returned once if sent twice, with its details unchanged', () => {
    expect(
      whole({ reasoning: 'hm', reasoning_content: 'hm', reasoning_details: [detail] }),
    ).toEqual([{ type: 'reasoning-delta', choice: 0, text: 'hm', details: [detail] }])
  })

  test('is returned before the text of the same chunk', () => {
    expect(whole({ content: 'Hi', reasoning: 'hm' }).map(part => part.type)).toEqual([
      'reasoning-delta',
      'text-delta',
    ])
  })

  test('is ignored if empty, null or malformed', () => {
    expect(
      streamed(
        delta({ reasoning_content: '' }),
        delta({ reasoning: null, reasoning_details: [{}, 'x', null] }),
      ),
    ).toEqual([])
  })

  test('is read from the content, where Mistral sends it', () => {
    const thinking = { type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }
    expect(whole({ content: [thinking, { type: 'text', text: '4' }] })).toEqual([
      { type: 'reasoning-delta', choice: 0, text: 'hm', details: [] },
      { type: 'text-delta', choice: 0, text: '4' },
    ])
  })
})

describe('tool calls', () => {
  test('of more pieces in one event than there can be are refused by their number', () => {
    const flood = Array.from({ length: 65_536 }, () => ({ index: 0, function: { arguments: '1' } }))
    expect(() => streamed(toolDelta(...flood))).toThrow('Provider returned error')
  })

  test('in fragments are joined by their index', () => {
    const given = streamed(
      toolDelta({
        index: 0,
        id: 'a',
        type: 'function',
        function: { name: 'weather', arguments: '' },
      }),
      toolDelta({ index: 0, function: { arguments: '{"city":' } }),
      toolDelta({
        index: 1,
        id: 'b',
        type: 'function',
        function: { name: 'time', arguments: '{' },
      }),
      toolDelta(
        { index: 0, function: { arguments: '"Rome"}' } },
        { index: 1, function: { arguments: '}' } },
      ),
    )
    expect(toolCalls(given)).toEqual([
      { choice: 0, id: 'a', name: 'weather', input: '{"city":"Rome"}' },
      { choice: 0, id: 'b', name: 'time', input: '{}' },
    ])
  })

  test('trap 82: without an index are distinguished by their position', () => {
    const given = streamed(
      toolDelta(
        { id: 'a', function: { name: 'one', arguments: '{}' } },
        { id: 'b', function: { name: 'two', arguments: '{}' } },
      ),
    )
    expect(toolCalls(given).map(({ id, name, input }) => [id, name, input])).toEqual([
      ['a', 'one', '{}'],
      ['b', 'two', '{}'],
    ])
  })

  test('trap 82: with index 0 throughout are distinguished by their ids', () => {
    const given = streamed(
      toolDelta({ index: 0, id: 'a', function: { name: 'one', arguments: '{}' } }),
      toolDelta({ index: 0, id: 'b', function: { name: 'two', arguments: '{}' } }),
    )
    expect(toolCalls(given).map(({ id }) => id)).toEqual(['a', 'b'])
  })

  test('that repeat their id and name in every fragment stay one call', () => {
    const piece = (text: string) =>
      toolDelta({ index: 0, id: 'a', function: { name: 'one', arguments: text } })
    expect(toolCalls(streamed(piece('{"a"'), piece(':1}')))).toEqual([
      { choice: 0, id: 'a', name: 'one', input: '{"a":1}' },
    ])
  })

  test('with an empty id in later fragments stay one call', () => {
    const given = streamed(
      toolDelta({ index: 0, id: 'a', function: { name: 'one', arguments: '' } }),
      toolDelta({ index: 0, id: '', function: { arguments: '{}' } }),
    )
    expect(toolCalls(given)).toEqual([{ choice: 0, id: 'a', name: 'one', input: '{}' }])
  })

  test('without an id get one that is stable and unique', () => {
    const calls = toolCalls(
      streamed(
        toolDelta(
          { function: { name: 'one', arguments: '{}' } },
          { function: { name: 'two', arguments: '{}' } },
        ),
      ),
    )
    expect(new Set(calls.map(({ id }) => id)).size).toBe(2)
    for (const { id } of calls) expect(id).toMatch(/^call_\w{1,40}$/)
  })

  test('keep big integers and spaces in their arguments unchanged', () => {
    const text = '{ "id": 12345678901234567890, "x": 1.0, "n": 1e400 }'
    expect(
      toolCalls(whole({ tool_calls: [{ id: 'a', function: { name: 'one', arguments: text } }] }))[0]
        ?.input,
    ).toBe(text)
  })

  test('whose arguments are an object have it serialized', () => {
    expect(
      toolCalls(
        whole({ tool_calls: [{ id: 'a', function: { name: 'one', arguments: { a: [1, 'x'] } } }] }),
      )[0]?.input,
    ).toBe('{"a":[1,"x"]}')
  })

  test('of the old kind, function_call, are read too', () => {
    const given = streamed(
      delta({ function_call: { name: 'one', arguments: '{' } }),
      delta({ function_call: { arguments: '}' } }),
    )
    expect(toolCalls(given).map(({ name, input }) => [name, input])).toEqual([['one', '{}']])
  })

  test('of several choices do not mix', () => {
    const given = streamed({
      choices: [
        {
          index: 0,
          delta: {
            tool_calls: [{ index: 0, id: 'a', function: { name: 'one', arguments: '{}' } }],
          },
        },
        {
          index: 1,
          delta: {
            tool_calls: [{ index: 0, id: 'b', function: { name: 'two', arguments: '{}' } }],
          },
        },
      ],
    })
    expect(
      given
        .filter(part => part.type === 'tool-call-start')
        .map(part => [part.choice, part.index, part.id]),
    ).toEqual([
      [0, 0, 'a'],
      [1, 0, 'b'],
    ])
  })

  test('U-28 by the thousand come from a broken provider, and no list grows for them', () => {
    const calls = Array.from({ length: 1_000 }, (_, index) => ({
      index,
      id: `c${index}`,
      function: { name: 'x', arguments: '{}' },
    }))
    expect(toolCalls(whole({ tool_calls: calls })).length).toBeLessThanOrEqual(128)
  })
})

describe('a call whose name comes late', () => {
  const begun = toolDelta({ index: 0, id: 'a', type: 'function', function: { arguments: '' } })
  const more = (fn: object) => toolDelta({ index: 0, function: fn })

  test('begins with its name, and with the arguments until then', () => {
    const given = streamed(
      begun,
      more({ arguments: '{"a"' }),
      more({ name: 'one', arguments: ':1' }),
      more({ arguments: '}' }),
    )
    expect(toolCalls(given)).toEqual([{ choice: 0, id: 'a', name: 'one', input: '{"a":1}' }])
  })

  test('is ignored without a name', () => {
    expect(
      streamed(begun, more({ name: '', arguments: '{}' }), delta({ content: 'Hi' })).map(
        part => part.type,
      ),
    ).toEqual(['text-delta'])
  })

  test('U-28 does not hold back arguments without a limit', () => {
    const endless = Array.from({ length: 200 }, () => more({ arguments: 'x'.repeat(10_000) }))
    expect(() => streamed(begun, ...endless)).toThrow(GatewayError)
    const many = Array.from({ length: 1_000 }, (_, index) => ({ index, function: {} }))
    expect(
      toolCalls(streamed(toolDelta(...many), toolDelta({ index: 0, function: { name: 'one' } }))),
    ).toHaveLength(1)
  })
})

describe('choices', () => {
  test('several answers of one call are distinguished by index, streamed or whole', () => {
    const choice = (index: number, text: string, member: string) => ({
      index,
      [member]: { content: text },
      finish_reason: 'stop',
    })
    const expected = [
      { type: 'text-delta', choice: 0, text: 'a' },
      { type: 'finish', choice: 0, reason: 'stop', native: 'stop' },
      { type: 'text-delta', choice: 1, text: 'b' },
      { type: 'finish', choice: 1, reason: 'stop', native: 'stop' },
    ] as TextPart[]
    expect(streamed({ choices: [choice(0, 'a', 'delta'), choice(1, 'b', 'delta')] })).toEqual(
      expected,
    )
    expect(
      parseAnswer(
        { choices: [choice(0, 'a', 'message'), choice(1, 'b', 'message')] },
        call,
        buildEndpoint(),
      ).slice(1),
    ).toEqual(expected)
  })

  test('U-28 an absurd index is skipped', () => {
    for (const index of [-1, 1.5, 1e9, Number.MAX_SAFE_INTEGER])
      expect(streamed({ choices: [{ index, delta: { content: 'x' } }] })).toEqual([])
  })

  test('anything that is no choice is skipped', () => {
    expect(streamed({ choices: [null, 'x', 1, []] }, { choices: 'x' }, { choices: null })).toEqual(
      [],
    )
  })

  test('a choice ends once, for the first reason that is sent', () => {
    const end = (finish_reason: string) => delta({}, { finish_reason })
    expect(streamed(end('tool_calls'), end('stop'))).toEqual([
      { type: 'finish', choice: 0, reason: 'tool_calls', native: 'tool_calls' },
    ])
  })

  test('the reason is ours, with the provider’s own beside it', () => {
    expect(streamed(delta({}, { finish_reason: 'model_length' }))).toEqual([
      { type: 'finish', choice: 0, reason: 'length', native: 'model_length' },
    ])
    expect(
      streamed(delta({}, { finish_reason: 'stop', native_finish_reason: 'end_turn' })),
    ).toEqual([{ type: 'finish', choice: 0, reason: 'stop', native: 'end_turn' }])
  })
})

describe('usage', () => {
  const usage = (completion_tokens: number) => ({ prompt_tokens: 10, completion_tokens })

  test('in every chunk: the last one counts', () => {
    const given = streamed(
      { ...delta({ content: 'a' }), usage: usage(1) },
      { ...delta({ content: 'b' }), usage: usage(2) },
    )
    expect(given.filter(part => part.type === 'usage').at(-1)).toMatchObject({
      usage: { input: { text: 10 }, output: { text: 2 } },
    })
  })

  test('is returned after the content of the same chunk', () => {
    expect(
      streamed({ ...delta({ content: 'a' }, { finish_reason: 'stop' }), usage: usage(1) }).map(
        part => part.type,
      ),
    ).toEqual(['text-delta', 'finish', 'usage'])
  })

  test('under x_groq is read if there is no other', () => {
    expect(streamed({ choices: [], x_groq: { usage: usage(3) } })).toMatchObject([
      { type: 'usage', usage: { output: { text: 3 } } },
    ])
  })

  test('in a choice, as Moonshot sends it, is read if there is none beside the choices', () => {
    const ended = delta({}, { finish_reason: 'stop', usage: usage(3) })
    expect(streamed(ended).at(-1)).toMatchObject({ type: 'usage', usage: { output: { text: 3 } } })
    expect(streamed({ ...ended, usage: usage(4) }).at(-1)).toMatchObject({
      type: 'usage',
      usage: { output: { text: 4 } },
    })
  })

  test('of zero does not replace another', () => {
    const nothing = { choices: [], usage: { prompt_tokens: 0, completion_tokens: 0 } }
    expect(streamed(nothing)).toMatchObject([{ type: 'usage' }])
    expect(
      streamed({ ...delta({ content: 'a' }), usage: usage(2) }, nothing).filter(
        part => part.type === 'usage',
      ),
    ).toMatchObject([{ usage: { output: { text: 2 } } }])
  })
})

describe('a streamed answer and a whole one', () => {
  const message = {
    role: 'assistant',
    content: 'Hello there',
    reasoning: 'I think',
    tool_calls: [
      {
        id: 'a',
        type: 'function',
        function: { name: 'one', arguments: '{"n":12345678901234567890}' },
      },
      { id: 'b', type: 'function', function: { name: 'two', arguments: '{}' } },
    ],
  }
  const usage = {
    prompt_tokens: 10,
    completion_tokens: 7,
    completion_tokens_details: { reasoning_tokens: 2 },
  }

  /** Returns the parts with consecutive pieces of the same kind joined. */
  function collected(given: TextPart[]): TextPart[] {
    const joined: TextPart[] = []
    for (const part of given) {
      const last = joined.at(-1)
      if (part.type === 'text-delta' && last?.type === 'text-delta')
        joined[joined.length - 1] = { ...last, text: last.text + part.text }
      else if (part.type === 'reasoning-delta' && last?.type === 'reasoning-delta')
        joined[joined.length - 1] = {
          ...last,
          text: last.text + part.text,
          details: [...last.details, ...part.details],
        }
      else if (
        part.type === 'tool-call-delta' &&
        last?.type === 'tool-call-delta' &&
        last.index === part.index
      )
        joined[joined.length - 1] = { ...last, input: last.input + part.input }
      else joined.push(part)
    }
    return joined
  }

  test('have the same parts once the pieces are joined', () => {
    const id = { id: 'x' }
    const pieces = (text: string, size: number) =>
      text.match(new RegExp(`.{1,${size}}`, 'gs')) ?? []
    const chunks = [
      ...pieces(message.reasoning, 3).map(reasoning => delta({ reasoning })),
      ...pieces(message.content, 4).map(content => delta({ content })),
      ...message.tool_calls.flatMap((one, index) => [
        toolDelta({
          index,
          id: one.id,
          type: 'function',
          function: { name: one.function.name, arguments: '' },
        }),
        ...pieces(one.function.arguments, 5).map(text =>
          toolDelta({ index, function: { arguments: text } }),
        ),
      ]),
      delta({}, { finish_reason: 'tool_calls' }),
      { ...id, choices: [], usage },
    ]
    const reader = new ChunkReader(call, buildEndpoint())
    const fromStream = collected(chunks.flatMap(chunk => reader.read(frame(chunk))))
    expect(fromStream).toEqual(
      parseAnswer(
        { ...id, choices: [{ index: 0, message, finish_reason: 'tool_calls' }], usage },
        call,
        buildEndpoint(),
      ),
    )
  })
})

test('leaves out fields of audio that have a wrong type', () => {
  const audio = { id: 'audio_1', data: { toString: 1 }, transcript: 7, expires_at: 1_700_000_000 }
  const sound = {
    type: 'audio-delta' as const,
    choice: 0,
    audio: { id: 'audio_1', expires_at: 1_700_000_000 },
  }
  expect(streamed(delta({ audio }))).toEqual([sound])
})
