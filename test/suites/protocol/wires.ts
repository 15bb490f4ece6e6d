import { GatewayError } from '../../../src/base/errors.ts'
import type { Json } from '../../../src/base/json.ts'
import { parseExact } from '../../../src/base/json.ts'
import type { TextPart } from '../../../src/language/part.ts'
import type { Frame, Protocol } from '../../../src/translation/protocols/protocol.ts'
import { buildEndpoint, buildTextCall } from '../../support/call.ts'
import { collectParts } from '../../support/parts.ts'

/** A call as its provider writes it: the arguments are a text, whole or not. */
export interface WireCall {
  id: string
  name: string
  input: string
}

/** What an answer says, in no protocol's form. */
export interface WireAnswer {
  text: string
  calls: WireCall[]
  /** The provider's word for the end; null for the usual one. */
  word: string | null
}

/** How one protocol's providers write the pieces of an answer. Each answer has its own. */
export interface Wire {
  /** The usual words for an end, and the one for an answer that was cut. */
  words: { stop: string; calls: string; length: string }
  /** Whether arguments are a text, which may be anything; else they are an object. */
  hasTexts: boolean
  start(): Frame[]
  text(piece: string): Frame[]
  beginCall(call: WireCall): Frame[]
  input(piece: string): Frame[]
  endCall(call: WireCall): Frame[]
  end(word: string): Frame[]
  whole(answer: WireAnswer & { word: string }): unknown
  /** The body of a refusal with this code and these words. */
  refusal(code: string, message: string): unknown
}

const frame = (data: Json, event: string | null = null): Frame => ({
  event,
  data: JSON.stringify(data),
})

const typed = (data: Json & { type: string }): Frame => frame(data, data.type)

/** What servers that imitate OpenAI's leave out of the deltas of a call, or repeat in each. */
interface ChatStyle {
  repeats?: boolean
  hasNoIndex?: boolean
  hasNoIds?: boolean
  /** Leaves out [DONE]. */
  hasNoDone?: boolean
  /** Leaves out why it ended. */
  hasNoReason?: boolean
}

function createChatWire(style: ChatStyle = {}): Wire {
  let index = -1
  let begun: WireCall = { id: '', name: '', input: '' }
  const renderCall = (input: string | undefined, isFirst: boolean) => {
    const { id, name } = begun
    const isNamed = isFirst || style.repeats
    return {
      ...(style.hasNoIndex ? {} : { index }),
      ...(isNamed && !style.hasNoIds ? { id, type: 'function' } : {}),
      function: {
        ...(isNamed ? { name } : {}),
        ...(input === undefined ? {} : { arguments: input }),
      },
    }
  }
  const chunk = (delta: Json, finish_reason: string | null = null) =>
    frame({ id: 'x', choices: [{ index: 0, delta, finish_reason }] })
  return {
    words: { stop: 'stop', calls: 'tool_calls', length: 'length' },
    hasTexts: true,
    start: () => [chunk({ role: 'assistant', content: '' })],
    text: piece => [chunk({ content: piece })],
    beginCall: call => {
      index += 1
      begun = call
      return [chunk({ tool_calls: [renderCall(undefined, true)] })]
    },
    input: piece => [chunk({ tool_calls: [renderCall(piece, false)] })],
    endCall: () => [],
    end: word => [
      ...(style.hasNoReason ? [] : [chunk({}, word)]),
      ...(style.hasNoDone ? [] : [{ event: null, data: '[DONE]' }]),
    ],
    whole: ({ text, calls, word }) => ({
      id: 'x',
      choices: [
        {
          index: 0,
          message: {
            content: text,
            tool_calls: calls.map(({ id, name, input }) => ({
              id,
              function: { name, arguments: input },
            })),
          },
          finish_reason: word,
        },
      ],
    }),
    refusal: (code, message) => ({ error: { code, message } }),
  }
}

function createMessagesWire(): Wire {
  let index = -1
  let open: 'text' | null = null
  const close = () => {
    const wasOpen = open !== null
    open = null
    return wasOpen ? [typed({ type: 'content_block_stop', index })] : []
  }
  const delta = (value: Json) => typed({ type: 'content_block_delta', index, delta: value })
  return {
    words: { stop: 'end_turn', calls: 'tool_use', length: 'max_tokens' },
    hasTexts: true,
    start: () => [typed({ type: 'message_start', message: { id: 'x' } })],
    text: piece => {
      const begun = open === 'text' ? [] : begin()
      return [...begun, delta({ type: 'text_delta', text: piece })]
    },
    beginCall: ({ id, name }) => {
      const closed = close()
      index += 1
      const content_block = { type: 'tool_use', id, name, input: {} }
      return [...closed, typed({ type: 'content_block_start', index, content_block })]
    },
    input: piece => [delta({ type: 'input_json_delta', partial_json: piece })],
    endCall: () => [typed({ type: 'content_block_stop', index })],
    end: word => [
      ...close(),
      typed({ type: 'message_delta', delta: { stop_reason: word } }),
      typed({ type: 'message_stop' }),
    ],
    whole: ({ text, calls, word }) => ({
      id: 'x',
      content: [
        ...(text ? [{ type: 'text', text }] : []),
        ...calls.map(({ id, name, input }) => ({
          type: 'tool_use',
          id,
          name,
          input: parseExact(input || '{}'),
        })),
      ],
      stop_reason: word,
    }),
    refusal: (type, message) => ({ type: 'error', error: { type, message } }),
  }

  function begin(): Frame[] {
    index += 1
    open = 'text'
    return [
      typed({ type: 'content_block_start', index, content_block: { type: 'text', text: '' } }),
    ]
  }
}

function createConverseWire(): Wire {
  let contentBlockIndex = -1
  let isText = false
  const place = (isNewText: boolean) => {
    if (!isNewText || !isText) contentBlockIndex += 1
    isText = isNewText
  }
  return {
    words: { stop: 'end_turn', calls: 'tool_use', length: 'max_tokens' },
    hasTexts: true,
    start: () => [frame({ role: 'assistant' }, 'messageStart')],
    text: piece => {
      place(true)
      return [frame({ contentBlockIndex, delta: { text: piece } }, 'contentBlockDelta')]
    },
    beginCall: ({ id, name }) => {
      place(false)
      const start = { toolUse: { toolUseId: id, name } }
      return [frame({ contentBlockIndex, start }, 'contentBlockStart')]
    },
    input: piece => [
      frame({ contentBlockIndex, delta: { toolUse: { input: piece } } }, 'contentBlockDelta'),
    ],
    endCall: () => [frame({ contentBlockIndex }, 'contentBlockStop')],
    end: word => [frame({ stopReason: word }, 'messageStop')],
    whole: ({ text, calls, word }) => ({
      output: {
        message: {
          content: [
            ...(text ? [{ text }] : []),
            ...calls.map(({ id, name, input }) => ({
              toolUse: { toolUseId: id, name, input: parseExact(input || '{}') },
            })),
          ],
        },
      },
      stopReason: word,
    }),
    refusal: (code, message) => ({ __type: code, message }),
  }
}

function createCohereWire(): Wire {
  let index = -1
  return {
    words: { stop: 'COMPLETE', calls: 'TOOL_CALL', length: 'MAX_TOKENS' },
    hasTexts: true,
    start: () => [typed({ type: 'message-start', id: 'x' })],
    text: piece => [
      typed({ type: 'content-delta', index: 0, delta: { message: { content: { text: piece } } } }),
    ],
    beginCall: ({ id, name }) => {
      index += 1
      const tool_calls = { id, type: 'function', function: { name, arguments: '' } }
      return [typed({ type: 'tool-call-start', index, delta: { message: { tool_calls } } })]
    },
    input: piece => {
      const tool_calls = { function: { arguments: piece } }
      return [typed({ type: 'tool-call-delta', index, delta: { message: { tool_calls } } })]
    },
    endCall: () => [typed({ type: 'tool-call-end', index })],
    end: word => [typed({ type: 'message-end', delta: { finish_reason: word } })],
    whole: ({ text, calls, word }) => ({
      id: 'x',
      message: {
        content: text ? [{ type: 'text', text }] : [],
        tool_calls: calls.map(({ id, name, input }) => ({
          id,
          type: 'function',
          function: { name, arguments: input },
        })),
      },
      finish_reason: word,
    }),
    refusal: (_, message) => ({ message }),
  }
}

function createGeminiWire(): Wire {
  const chunk = (parts: Json[], finishReason?: string) =>
    frame({
      candidates: [{ content: { parts }, ...(finishReason === undefined ? {} : { finishReason }) }],
    })
  const toPart = ({ id, name, input }: WireCall) => ({
    functionCall: { id, name, args: parseExact(input || '{}') },
  })
  return {
    words: { stop: 'STOP', calls: 'STOP', length: 'MAX_TOKENS' },
    hasTexts: false,
    start: () => [],
    text: piece => [chunk([{ text: piece }])],
    beginCall: () => [],
    input: () => [],
    endCall: call => [chunk([toPart(call)])],
    end: word => [chunk([], word)],
    whole: ({ text, calls, word }) => ({
      candidates: [
        {
          content: { parts: [...(text ? [{ text }] : []), ...calls.map(toPart)] },
          finishReason: word,
        },
      ],
    }),
    refusal: (status, message) => ({ error: { status, message } }),
  }
}

function createResponsesWire(): Wire {
  let output_index = -1
  let message: { item: Json; text: string } | null = null
  const items: Json[] = []
  let item_id = ''
  const closeMessage = (): Frame[] => {
    if (!message) return []
    const item = { ...message.item, content: [{ type: 'output_text', text: message.text }] }
    message = null
    items.push(item)
    return [typed({ type: 'response.output_item.done', output_index, item })]
  }
  const toItem = ({ id, name, input }: WireCall, i: number | string) => ({
    type: 'function_call',
    id: `fc_${i}`,
    call_id: id,
    name,
    arguments: input,
  })
  const toResponse = (word: string, output: Json[]) => ({
    id: 'x',
    status: word === 'completed' ? word : 'incomplete',
    ...(word === 'completed' ? {} : { incomplete_details: { reason: word } }),
    output,
  })
  return {
    words: { stop: 'completed', calls: 'completed', length: 'max_output_tokens' },
    hasTexts: true,
    start: () => [typed({ type: 'response.created', response: { id: 'x' } })],
    text: piece => {
      const begun: Frame[] = []
      if (!message) {
        output_index += 1
        item_id = `msg_${output_index}`
        message = { item: { type: 'message', id: item_id, role: 'assistant' }, text: '' }
        begun.push(
          typed({
            type: 'response.output_item.added',
            output_index,
            item: { ...message.item, content: [] },
          }),
        )
      }
      message.text += piece
      const place = { output_index, item_id, content_index: 0 }
      return [...begun, typed({ type: 'response.output_text.delta', ...place, delta: piece })]
    },
    beginCall: call => {
      const closed = closeMessage()
      output_index += 1
      item_id = `fc_${output_index}`
      const item = toItem({ ...call, input: '' }, output_index)
      return [...closed, typed({ type: 'response.output_item.added', output_index, item })]
    },
    input: piece => [
      typed({
        type: 'response.function_call_arguments.delta',
        output_index,
        item_id,
        delta: piece,
      }),
    ],
    endCall: call => {
      const item = toItem(call, output_index)
      items.push(item)
      return [typed({ type: 'response.output_item.done', output_index, item })]
    },
    end: word => {
      const closed = closeMessage()
      const type = word === 'completed' ? 'response.completed' : 'response.incomplete'
      return [...closed, typed({ type, response: toResponse(word, items) })]
    },
    whole: ({ text, calls, word }) =>
      toResponse(word, [
        ...(text
          ? [{ type: 'message', id: 'msg_0', content: [{ type: 'output_text', text }] }]
          : []),
        ...calls.map(toItem),
      ]),
    refusal: (code, message) => ({ error: { code, message } }),
  }
}

/** How each protocol's providers write an answer, by the protocol's name. */
export const WIRES: Record<string, () => Wire> = {
  'openai-chat': () => createChatWire(),
  'anthropic-messages': createMessagesWire,
  'bedrock-converse': createConverseWire,
  'cohere-chat': createCohereWire,
  gemini: createGeminiWire,
  'openai-responses': createResponsesWire,
}

/** Other ways to write the same, by protocol. */
export const VARIANTS: Record<string, [what: string, create: () => Wire][]> = {
  'openai-chat': [
    ['ids and names repeated', () => createChatWire({ repeats: true })],
    ['no indexes', () => createChatWire({ hasNoIndex: true })],
    ['no ids', () => createChatWire({ hasNoIds: true })],
    ['neither ids nor indexes', () => createChatWire({ hasNoIds: true, hasNoIndex: true })],
    ['no [DONE]', () => createChatWire({ hasNoDone: true })],
    ['no reason', () => createChatWire({ hasNoReason: true })],
  ],
}

/** What a client may take an answer for. */
export interface WireVerdict {
  text: string
  calls: [name: string, input: string][]
  /** Our finish reason; `error` for one that failed. */
  end: string
}

const call = buildTextCall({
  stream: true,
  tools: ['f', 'g'].map(name => ({ type: 'function', name })),
})

const FAILED: WireVerdict = { text: '', calls: [], end: 'error' }

/** Reads the frames of one streamed answer to its end, as a stream of them is read. */
export function readFrames(protocol: Protocol<'text'>, frames: Frame[]): WireVerdict {
  const reader = protocol.createReader(call, buildEndpoint())
  const parts: TextPart[] = []
  try {
    for (const one of frames) {
      if (reader.failure) break
      parts.push(...reader.read(one))
    }
    if (!reader.complete && !reader.failure) parts.push(...(reader.end?.() ?? []))
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown
    return { ...toVerdict(parts), end: 'error' }
  }
  const verdict = toVerdict(parts)
  return reader.complete && !reader.failure ? verdict : { ...verdict, end: 'error' }
}

/** Reads a whole answer. */
export function readWhole(protocol: Protocol<'text'>, body: unknown): WireVerdict {
  try {
    return toVerdict(protocol.parseAnswer(parseExact(JSON.stringify(body)), call, buildEndpoint()))
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown
    return FAILED
  }
}

function toVerdict(parts: TextPart[]): WireVerdict {
  const { text, calls, finish } = collectParts(parts)
  return {
    text,
    calls: calls.map(({ name, input }) => [name, input]),
    end: finish?.reason ?? 'error',
  }
}

/** Splits a text into pieces of these lengths, over and over. */
export function cutText(text: string, sizes: number[]): string[] {
  const pieces: string[] = []
  for (let at = 0, i = 0; at < text.length; i++) {
    const size = Math.max(1, sizes[i % Math.max(sizes.length, 1)] ?? text.length)
    pieces.push(text.slice(at, at + size))
    at += size
  }
  return pieces
}

/** Writes an answer as a stream, its texts and arguments in pieces of these lengths. */
export function writeFrames(wire: Wire, answer: WireAnswer, sizes: number[]): Frame[] {
  const usual = answer.calls.length > 0 ? wire.words.calls : wire.words.stop
  return [
    ...wire.start(),
    ...cutText(answer.text, sizes).flatMap(piece => wire.text(piece)),
    ...answer.calls.flatMap(one => [
      ...wire.beginCall(one),
      ...cutText(one.input, sizes).flatMap(piece => wire.input(piece)),
      ...wire.endCall(one),
    ]),
    ...wire.end(answer.word ?? usual),
  ]
}
