import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { Block } from '../../../../src/language/message.ts'
import {
  buildRequest,
  buildVertexRequest,
} from '../../../../src/translation/protocols/anthropic-messages/request.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'

const endpoint = (upstreamModel = 'claude-sonnet-4-5') =>
  buildEndpoint({ upstreamModel, provider: buildProvider({ slug: 'anthropic' }) })

/** Returns the body that Anthropic receives for a call. */
const sent = (more: Partial<TextCall> = {}, model?: string) =>
  buildRequest(buildTextCall(more), endpoint(model)).body
const text = (said: string): Block => ({ type: 'text', text: said })
const user = (...blocks: (Block | string)[]) => ({
  role: 'user' as const,
  blocks: blocksOf(blocks),
})
const assistant = (...blocks: (Block | string)[]) => ({
  role: 'assistant' as const,
  blocks: blocksOf(blocks),
})
const blocksOf = (blocks: (Block | string)[]) =>
  blocks.map(block => (typeof block === 'string' ? text(block) : block))
const toolCall = (id: string, name = 'look', input = '{}'): Block => ({
  type: 'tool-call',
  id,
  name,
  input,
})
const result = (tool_call_id: string, ...blocks: (Block | string)[]) => ({
  role: 'tool' as const,
  tool_call_id,
  blocks: blocksOf(blocks),
})
const messages = (turns: TextCall['messages'], more: Partial<TextCall> = {}, model?: string) =>
  sent({ ...more, messages: turns }, model).messages

const PNG = 'data:image/png;base64,iVBORw0KGgo='
const PDF = 'data:application/pdf;base64,JVBERi0='

describe('the request', () => {
  test('a plain call has the model, the messages and the largest max_tokens', () => {
    expect(buildRequest(buildTextCall(), endpoint())).toEqual({
      path: '/messages',
      headers: { 'anthropic-version': '2023-06-01' },
      body: {
        model: 'claude-sonnet-4-5',
        max_tokens: 64_000,
        messages: [{ role: 'user', content: 'Hi' }],
      },
    })
  })

  test('a streamed call has stream', () => {
    expect(sent({ stream: true }).stream).toBe(true)
  })

  test('trap 98: on Vertex the model is in the path and the version in the body', () => {
    const at = buildEndpoint({
      upstreamModel: 'claude-sonnet-4-5@20250929',
      protocol: 'anthropic-vertex',
    })
    expect(buildVertexRequest(buildTextCall(), at)).toEqual({
      path: '/models/claude-sonnet-4-5@20250929:rawPredict',
      headers: {},
      body: {
        anthropic_version: 'vertex-2023-10-16',
        max_tokens: 64_000,
        messages: [{ role: 'user', content: 'Hi' }],
      },
    })
    expect(
      buildVertexRequest(buildTextCall({ stream: true, extra: { model: 'x' } }), at),
    ).toMatchObject({
      path: '/models/claude-sonnet-4-5@20250929:streamRawPredict',
      body: { stream: true },
    })
    expect(
      buildVertexRequest(buildTextCall({ extra: { model: 'x' } }), at).body,
    ).not.toHaveProperty('model')
  })

  test('leaves the call unchanged', () => {
    const call = buildTextCall({
      messages: [
        user(
          ...Array.from(
            { length: 6 },
            (_, i): Block => ({ type: 'text', text: `${i}`, cache_control: { type: 'ephemeral' } }),
          ),
        ),
      ],
      tools: [
        {
          type: 'other',
          dialect: 'messages',
          value: { type: 'bash_20250124', name: 'bash', cache_control: { type: 'ephemeral' } },
        },
      ],
      dialect: 'messages',
      params: { cache_control: { type: 'ephemeral' } },
    })
    const before = structuredClone(call)
    buildRequest(call, endpoint())
    expect(call).toEqual(before)
  })
})

describe('the conversation', () => {
  test('trap 5, 6: collects system and developer messages into the system prompt', () => {
    const turns = [
      { role: 'system' as const, blocks: [text('a')] },
      user('b'),
      { role: 'developer' as const, blocks: [text('c')] },
    ]
    expect(sent({ messages: turns })).toMatchObject({
      system: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'c' },
      ],
      messages: [{ role: 'user', content: 'b' }],
    })
    expect(sent({ messages: turns.slice(0, 2) }).system).toBe('a')
  })

  const later = [
    { role: 'system' as const, blocks: [text('a')] },
    user('b'),
    { role: 'system' as const, blocks: [text('c')], extra: { clear_at: 'next_user_message' } },
    assistant('d'),
    user('e'),
  ]
  const TAKES = [...['claude-opus-4-8', 'claude-opus-5', 'claude-opus-5-5'], 'claude-fable-5']

  test.each([...TAKES, 'claude-fable-5-2'])(
    '%s gets later instructions where they stand',
    model => {
      const turns = [
        { role: 'user', content: 'b' },
        { role: 'system', content: 'c', clear_at: 'next_user_message' },
        ...[
          { role: 'assistant', content: 'd' },
          { role: 'user', content: 'e' },
        ],
      ]
      const own = sent({ dialect: 'messages', messages: later }, model)
      expect(own).toMatchObject({ system: 'a', messages: turns })
      const chat = sent({ dialect: 'chat', messages: later }, model)
      expect(chat.messages).toEqual(
        turns.map(({ role, content }) => ({ role, content }) as Record<string, unknown>),
      )
    },
  )

  test.each([
    ...['claude-sonnet-5', 'claude-opus-4-7', 'claude-haiku-4-5', 'glm-5', 'claude-opus-9'],
  ])('%s has the user say what a client of this API sends later', model => {
    expect(sent({ dialect: 'messages', messages: later }, model)).toMatchObject({
      system: 'a',
      messages: [
        {
          role: 'user',
          content: [text('b'), text('<system-reminder>\nc\n</system-reminder>')],
        },
        ...[
          { role: 'assistant', content: 'd' },
          { role: 'user', content: 'e' },
        ],
      ],
    })
    expect(sent({ dialect: 'chat', messages: later }, model).system).toEqual([text('a'), text('c')])
  })

  test('sends instructions alone as the user’s message', () => {
    const body = sent({ messages: [{ role: 'system', blocks: [text('a')] }] })
    expect(body.messages).toEqual([{ role: 'user', content: 'a' }])
    expect(body).not.toHaveProperty('system')
  })

  test('starts a conversation of the assistant’s with the user', () => {
    expect(messages([assistant('Hello'), user('Hi')])).toEqual([
      { role: 'user', content: '.' },
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: 'Hi' },
    ])
  })

  test('trap 1, 2, 19: puts results first, in call order, and adds missing ones', () => {
    const turns = [
      user('a'),
      assistant('b', toolCall('1'), toolCall('2')),
      result('2', 'two'),
      user('c'),
    ]
    expect(messages(turns)).toEqual([
      { role: 'user', content: 'a' },
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'b' },
          { type: 'tool_use', id: '1', name: 'look', input: {} },
          { type: 'tool_use', id: '2', name: 'look', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: '1',
            content: [{ type: 'text', text: 'The tool gave no result.' }],
            is_error: true,
          },
          { type: 'tool_result', tool_use_id: '2', content: [{ type: 'text', text: 'two' }] },
          { type: 'text', text: 'c' },
        ],
      },
    ])
  })

  test('trap 7: omits empty texts from messages and results', () => {
    expect(
      messages([user('', 'a', ' \n'), assistant('', toolCall('1')), result('1', ''), user('b')]),
    ).toEqual([
      { role: 'user', content: 'a' },
      { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'look', input: {} }] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: '1' },
          { type: 'text', text: 'b' },
        ],
      },
    ])
  })

  test('trap 11: trims white space from the end of a prefill', () => {
    expect(messages([user('a'), assistant('b \n')])).toEqual([
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
    ])
  })

  test.each(['claude-opus-4-6', 'claude-sonnet-5', 'claude-opus-9', 'anthropic/claude-opus-4.6'])(
    'trap 11: refuses a prefill for %s',
    model => {
      const refused = () => messages([user('a'), assistant('b')], {}, model)
      expect(refused).toThrow(GatewayError)
      expect(refused).toThrow(/last message must be the user’s/)
    },
  )

  test('continues a block of the provider’s own tools for every model', () => {
    const search = {
      type: 'server_tool_use',
      id: 'srvtoolu_1',
      name: 'web_search',
      input: { query: 'x' },
    }
    const turns = [user('a'), assistant({ type: 'other', dialect: 'messages', value: search })]
    expect(messages(turns, { dialect: 'messages' }, 'claude-opus-4-8')).toEqual([
      { role: 'user', content: 'a' },
      { role: 'assistant', content: [search] },
    ])
  })

  test('trap 57: omits parameters of the gateway', () => {
    const turns = [
      { ...user({ ...text('a'), extra: { odd: 1 } } as Block), extra: { odd: 2 }, name: 'Ann' },
    ]
    expect(messages(turns)).toEqual([{ role: 'user', content: 'a' }])
  })

  test('passes on unknown fields of blocks for clients of this dialect', () => {
    const turns = [
      user({ ...text('a'), extra: { citations: [{ type: 'char_location' }] } } as Block),
    ]
    expect(messages(turns, { dialect: 'messages' })).toEqual([
      {
        role: 'user',
        content: [{ citations: [{ type: 'char_location' }], type: 'text', text: 'a' }],
      },
    ])
  })
})

describe('media', () => {
  test('trap 13, 14: sends images by URL or as base64 with their media type', () => {
    expect(
      messages([
        user(
          { type: 'image', url: 'https://a.example/x.jpg', detail: 'low' },
          { type: 'image', url: PNG },
        ),
      ]),
    ).toEqual([
      {
        role: 'user',
        content: [
          { type: 'image', source: { type: 'url', url: 'https://a.example/x.jpg' } },
          {
            type: 'image',
            source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' },
          },
        ],
      },
    ])
  })

  test('trap 18: sends documents, plain text and images as such', () => {
    const file = (file_data: string, more: object = {}): Block => ({
      type: 'file',
      file: { file_data },
      ...more,
    })
    const given = [
      file(PDF, {
        file: { file_data: PDF, filename: 'a.pdf' },
        citations: true,
        cache_control: { type: 'ephemeral' },
      }),
      file('https://a.example/b.pdf'),
      file('data:text/markdown;base64,SGnDpA=='),
      file(PNG),
      { type: 'file', file: { file_id: 'file_1' } } as Block,
    ]
    expect(messages([user(...given)])).toEqual([
      {
        role: 'user',
        content: [
          {
            type: 'document',
            source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERi0=' },
            title: 'a.pdf',
            citations: { enabled: true },
            cache_control: { type: 'ephemeral' },
          },
          { type: 'document', source: { type: 'url', url: 'https://a.example/b.pdf' } },
          { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Hiä' } },
          {
            type: 'image',
            source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' },
          },
          { type: 'document', source: { type: 'file', file_id: 'file_1' } },
        ],
      },
    ])
  })

  test('trap 16: sends tool results with images, errors and cache markers', () => {
    const turns = [
      user('a'),
      assistant(toolCall('1')),
      {
        ...result('1', { type: 'image', url: PNG }),
        is_error: true,
        cache_control: { type: 'ephemeral' as const },
      },
    ]
    expect((messages(turns) as object[]).at(-1)).toEqual({
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: '1',
          content: [
            {
              type: 'image',
              source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' },
            },
          ],
          is_error: true,
          cache_control: { type: 'ephemeral' },
        },
      ],
    })
  })

  test.each<[string, Block]>([
    ['audio', { type: 'audio', data: 'AA==', format: 'wav' }],
    ['video', { type: 'video', url: 'https://a.example/v.mp4' }],
    [
      'an unsupported kind of file',
      { type: 'file', file: { file_data: 'data:application/zip;base64,AA==' } },
    ],
    ['a file without data', { type: 'file', file: { filename: 'x' } }],
    ['a broken data URL', { type: 'image', url: 'data:image/png' }],
    ['content of another API', { type: 'other', dialect: 'chat', value: { type: 'odd' } }],
  ])('refuses %s', (_what, block) => {
    expect(() => messages([user(block)])).toThrow(GatewayError)
  })
})

describe('parameters', () => {
  test('trap 47: takes max_tokens from the caller, the catalogue or the model', () => {
    expect(sent({ params: { max_tokens: 5 } }).max_tokens).toBe(5)
    expect(
      buildRequest(buildTextCall(), buildEndpoint({ max_completion_tokens: 7_000 })).body
        .max_tokens,
    ).toBe(7_000)
    expect(
      ['claude-3-haiku-20240307', 'claude-opus-4-20250514', 'claude-opus-4-8', 'some-model'].map(
        model => sent({}, model).max_tokens,
      ),
    ).toEqual([4_096, 32_000, 128_000, 8_192])
  })

  test('trap 49: clamps temperature to 1, and prefers it to top_p', () => {
    expect(
      sent({ params: { temperature: 1.7, top_p: 0.5, top_k: 5 } }, 'claude-3-7-sonnet'),
    ).toMatchObject({
      temperature: 1,
      top_p: 0.5,
      top_k: 5,
    })
    expect(sent({ params: { temperature: 0.3, top_p: 0.5 } })).not.toHaveProperty('top_p')
    expect(sent({ params: { top_p: 0.5 } })).toMatchObject({ top_p: 0.5 })
    const newest = sent({ params: { temperature: 0.3, top_p: 0.5, top_k: 5 } }, 'claude-opus-4-7')
    for (const name of ['temperature', 'top_p', 'top_k']) expect(newest).not.toHaveProperty(name)
  })

  test('trap 50: omits stop sequences of white space', () => {
    expect(sent({ params: { stop: ['\n', 'END', ' '] } }).stop_sequences).toEqual(['END'])
    expect(sent({ params: { stop: ['\n'] } })).not.toHaveProperty('stop_sequences')
  })

  test('trap 51–53: omits parameters without an equivalent', () => {
    const params = {
      seed: 1,
      logit_bias: { '1': 1 },
      frequency_penalty: 1,
      presence_penalty: 1,
      min_p: 0.1,
      logprobs: true,
      top_logprobs: 3,
    }
    expect(sent({ params, extra: { n: 2, store: true } })).toEqual(sent())
  })

  test('trap 56: sends the end user as metadata', () => {
    expect(sent({ user: 'hash' }).metadata).toEqual({ user_id: 'hash' })
  })

  test('maps service tiers', () => {
    const tiers = ['auto', 'priority', 'default', 'standard_only', 'flex', 'constructor'].map(
      service_tier => sent({ params: { service_tier } }).service_tier,
    )
    expect(tiers).toEqual(['auto', 'auto', 'standard_only', 'standard_only', undefined, undefined])
  })

  test('passes on unknown parameters, which cannot overwrite known ones', () => {
    expect(sent({ extra: { top_k_odd: 1, model: 'x', messages: [], max_tokens: 1 } })).toEqual({
      ...sent(),
      top_k_odd: 1,
    })
  })

  test('omits parameters of other dialects, and passes on those of this one', () => {
    expect(sent({ dialect: 'responses', extra: { truncation: 'auto' } })).toEqual(sent())
    const own = {
      context_management: { edits: [] },
      mcp_servers: [],
      container: 'c',
      output_config: { task_budget: { type: 'tokens', total: 20_000 } },
    }
    expect(sent({ dialect: 'messages', extra: own })).toEqual({ ...sent(), ...own })
  })

  test('maps verbosity to effort for models that have efforts', () => {
    expect(sent({ params: { verbosity: 'low' } }, 'claude-opus-4-5').output_config).toEqual({
      effort: 'low',
    })
    expect(sent({ params: { verbosity: 'max' } }, 'claude-opus-4-5').output_config).toEqual({
      effort: 'high',
    })
    expect(sent({ params: { verbosity: 'low' } })).not.toHaveProperty('output_config')
  })
})
