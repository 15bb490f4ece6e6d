import { Type } from '@sinclair/typebox'
import { requireValid } from '../../base/body.ts'
import { readDataUrl } from '../../base/data-url.ts'
import type { GatewayError } from '../../base/errors.ts'
import { isObject, type Json, parseObject, readObject } from '../../base/json.ts'
import { list, open, optional, SomeName } from '../../base/schema-builders.ts'
import type { Answer } from '../../language/answer.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Message } from '../../language/message.ts'
import { toConverseCitation } from './bedrock/citations.ts'
import {
  ConverseRequest,
  pickModelFields,
  toBase64,
  toConverseAnswer,
  toMessagesBody,
  toStopReason,
  toUsage,
} from './bedrock/converse.ts'
import { BEDROCK_ERROR_FORMAT, nameException } from './bedrock/error.ts'
import type { CallContext, Dialect, Streaming } from './dialect.ts'
import { MessagesRequest } from './messages/schema.ts'
import { collectMessagesResponse, messages, streamMessagesEvents } from './messages.ts'

/** What kind of message a frame is: an event of the answer, or why it broke off. */
type FrameKind = 'event' | 'exception'

const TEXT = 7
/** The bytes of the lengths and of their checksum; those of the checksum at the end. */
const PRELUDE = 12
const CHECKSUM = 4

/**
 * Renders a message of an AWS event stream, as a text of one character for each of its bytes
 * (Smithy's event stream specification).
 */
function renderFrame(kind: FrameKind, name: string, payload: object): string {
  const headers = Buffer.concat(
    [
      [`:${kind}-type`, name],
      [':content-type', 'application/json'],
      [':message-type', kind],
    ].map(([header = '', value = '']) => renderHeader(header, value)),
  )
  const body = Buffer.from(JSON.stringify(payload))
  const frame = Buffer.alloc(PRELUDE + headers.length + body.length + CHECKSUM)
  frame.writeUInt32BE(frame.length, 0)
  frame.writeUInt32BE(headers.length, 4)
  frame.writeUInt32BE(Bun.hash.crc32(frame.subarray(0, 8)), 8)
  headers.copy(frame, PRELUDE)
  body.copy(frame, PRELUDE + headers.length)
  const end = frame.length - CHECKSUM
  frame.writeUInt32BE(Bun.hash.crc32(frame.subarray(0, end)), end)
  return frame.toString('latin1')
}

function renderHeader(name: string, value: string): Buffer {
  const header = Buffer.alloc(1 + name.length + 3 + value.length)
  header.writeUInt8(name.length, 0)
  header.write(name, 1, 'latin1')
  header.writeUInt8(TEXT, 1 + name.length)
  header.writeUInt16BE(value.length, 2 + name.length)
  header.write(value, 4 + name.length, 'latin1')
  return header
}

/*
 * Bedrock’s doors over the Messages dialect: `converse` says the same in other words, and `invoke`
 * takes bodies of Anthropic’s models as they are. What streams is frames of bytes.
 */

/** Renders what one event of the Messages API becomes. */
type ToFrames = (event: Json) => string

/** The frames in place of the events of a message. */
function writeFrames(events: AsyncIterator<string>, toFrames: ToFrames): AsyncIterator<string> {
  return {
    async next() {
      const step = await events.next()
      if (step.done) return step
      return { done: false, value: toEvents(step.value).map(toFrames).join('') }
    },
    async return() {
      await events.return?.()
      return { done: true, value: undefined }
    },
  }
}

function toEvents(text: string): Json[] {
  const events: Json[] = []
  for (const event of text.split('\n\n')) {
    const parsed = parseObject(event.slice(event.indexOf('data: ') + 'data: '.length))
    if (parsed) events.push(parsed)
  }
  return events
}

const renderException = (error: GatewayError, request_id: string): string => {
  const name = nameException(error)
  return renderFrame('exception', name[0]?.toLowerCase() + name.slice(1), {
    message: error.message,
    request_id,
    ...error.siblingFields,
  })
}

const renderBroken = (event: Json): string => {
  const { error, ...rest } = event
  return renderFrame('exception', 'modelStreamErrorException', {
    message: readObject({ error }, 'error').message,
    ...rest,
  })
}

/** The blocks that Converse has a form for. */
const SHOWN = ['text', 'tool_use', 'thinking', 'redacted_thinking', 'image']

/** Creates what turns the events of a message into those of `converse-stream`. */
function createConverseFrames(
  call: TextCall,
  { additionalModelResponseFieldPaths: paths }: ConverseRequest,
): ToFrames {
  let usage: unknown
  let isShown = false
  const frame = (name: string, payload: object) => renderFrame('event', name, payload)
  return event => {
    const contentBlockIndex = event.index
    const delta = (change: Json) => frame('contentBlockDelta', { contentBlockIndex, delta: change })
    switch (event.type) {
      case 'message_start':
        return frame('messageStart', { role: 'assistant' })
      case 'content_block_start': {
        const { type, id, name, data, image } = readObject(event, 'content_block')
        isShown = SHOWN.includes(String(type))
        if (type === 'redacted_thinking')
          return delta({ reasoningContent: { redactedContent: toBase64(data) } })
        const { format, source } = readObject({ image }, 'image')
        const start =
          type === 'image' ? { image: { format } } : { toolUse: { toolUseId: id, name } }
        const isBegun = type === 'tool_use' || type === 'image'
        const begin = isBegun ? frame('contentBlockStart', { contentBlockIndex, start }) : ''
        return begin + (source === undefined ? '' : delta({ image: { source } }))
      }
      case 'content_block_delta':
        return toDelta(readObject(event, 'delta'), delta)
      case 'content_block_stop':
        return isShown ? frame('contentBlockStop', { contentBlockIndex }) : ''
      case 'message_delta':
        usage = event.usage
        return frame('messageStop', {
          stopReason: toStopReason(readObject(event, 'delta').stop_reason),
          ...pickModelFields(event, paths),
        })
      case 'message_stop': {
        const { type: _, ...beside } = event
        const metrics = { latencyMs: readLatency(call) }
        return frame('metadata', { usage: toUsage(usage), metrics, ...beside })
      }
      case 'error':
        return renderBroken(event)
      default:
        return ''
    }
  }
}

function toDelta(change: Json, delta: (change: Json) => string): string {
  switch (change.type) {
    case 'text_delta':
      return delta({ text: change.text })
    case 'input_json_delta':
      return delta({ toolUse: { input: change.partial_json } })
    case 'thinking_delta':
      return delta({ reasoningContent: { text: change.thinking } })
    case 'signature_delta':
      return delta({ reasoningContent: { signature: change.signature } })
    case 'citations_delta':
      return delta({ citation: toConverseCitation(readObject(change, 'citation')) })
    default:
      return ''
  }
}

/** The events of a message as they are, each in a frame. */
const toChunk: ToFrames = event =>
  event.type === 'error'
    ? renderBroken(event)
    : renderFrame('event', 'chunk', { bytes: toBase64(JSON.stringify(event)) })

const createStreaming = <Body>(
  create: (call: TextCall, body: Body) => ToFrames,
  keepAlive: string,
  pictures?: typeof toPictureBlock,
): Streaming<'text', Body> => ({
  media_type: 'application/vnd.amazon.eventstream',
  isBinary: true,
  renderKeepAlive: () => keepAlive,
  streamEvents: (answer: Answer<'text'>, call: TextCall, body: Body) =>
    writeFrames(streamMessagesEvents(answer, call, pictures), create(call, body)),
  renderFailure: ({ id }, error) => renderException(error, id),
})

/** Converts a picture into a block of Converse’s own; null for a type that it has no name for. */
function toPictureBlock(url: string): Json | null {
  const media = readDataUrl(url)
  const [, format] = PICTURE_TYPE.exec(media?.media_type ?? '') ?? []
  return media && format
    ? { type: 'image', image: { format, source: { bytes: media.data } } }
    : null
}

const PICTURE_TYPE = /^image\/(png|jpeg|gif|webp)$/

/** An event that Converse’s clients do not know, and pass over. */
const WAITING = renderFrame('event', 'ping', {})

/** When calls have begun, by the clock of `performance`: Converse tells how long they took. */
const starts = new WeakMap<TextCall, number>()

const readLatency = (call: TextCall): number => {
  const now = performance.now()
  return Math.round(now - (starts.get(call) ?? now))
}

const toConverseCall: typeof converse.toCall = (world, actor, given, context) => {
  const { body, betas, leftOut } = toMessagesBody(given)
  const checked = requireValid(MessagesRequest, body)
  const read = messages.toCall(world, actor, checked, addBetas(context, betas))
  const call = {
    ...read,
    messages: restoreMedia(read.messages),
    ...(leftOut.length > 0 ? { leftOut } : {}),
  }
  starts.set(call, performance.now())
  return call
}

/** Videos and sounds have no form in the Messages API, but one in a call. */
const restoreMedia = (messages: Message[]): Message[] =>
  messages.map(message => ({ ...message, blocks: message.blocks.map(restoreBlock) }))

function restoreBlock(block: Block): Block {
  if (block.type !== 'other' || !isObject(block.value)) return block
  const { type, media } = block.value
  const { media_type, data } = isObject(media) ? media : {}
  if (typeof media_type !== 'string' || typeof data !== 'string') return block
  if (type === 'audio') return { type, data, format: media_type }
  return type === 'video' ? { type, url: `data:${media_type};base64,${data}` } : block
}

const isBeta = (name: unknown) => typeof name === 'string' && /^[A-Za-z0-9-]{1,64}$/.test(name)

/** Adds the features that a body names, where it has no header to do so. */
const addBetas = (context: CallContext, named: unknown): CallContext => ({
  ...context,
  betas: [...context.betas, ...(Array.isArray(named) ? named : []).filter(isBeta)],
})

const ID_HEADER = 'x-amzn-requestid'

/** `POST /model/{model}/converse`. */
export const converse: Dialect<'text', ConverseRequest> = {
  name: 'converse',
  idHeader: ID_HEADER,
  kind: 'text',
  path: '/model/:model/converse',
  showsRouting: true,
  operation: { id: 'converse', tag: 'Bedrock', summary: 'Answer a conversation as Converse does' },
  body: ConverseRequest,
  errorFormat: BEDROCK_ERROR_FORMAT,
  toCall: toConverseCall,
  async collectResponse(answer, call, { additionalModelResponseFieldPaths: paths }) {
    const message = await collectMessagesResponse(answer, call, toPictureBlock)
    return toConverseAnswer(message, readLatency(call), paths)
  },
}

/** `POST /model/{model}/converse-stream`. */
export const converseStream: Dialect<'text', ConverseRequest> = {
  ...converse,
  path: '/model/:model/converse-stream',
  operation: {
    id: 'converseStream',
    tag: 'Bedrock',
    summary: 'Answer a conversation as Converse does, as a stream',
  },
  streaming: createStreaming(createConverseFrames, WAITING, toPictureBlock),
}

const { model: _, ...invokeFields } = MessagesRequest.properties

/** A body of Anthropic’s models, with what Bedrock has no headers for. */
const InvokeRequest = Type.Object(
  {
    ...invokeFields,
    model: optional(SomeName),
    anthropic_version: optional(Type.String({ maxLength: 64 })),
    anthropic_beta: optional(list(Type.Unknown(), { maxItems: 256 })),
  },
  open,
)

/** `POST /model/{model}/invoke`, for bodies of Anthropic’s models. */
export const invoke: Dialect<'text', MessagesRequest> = {
  name: 'invoke',
  idHeader: ID_HEADER,
  showsRouting: true,
  kind: 'text',
  path: '/model/:model/invoke',
  operation: {
    id: 'invokeModel',
    tag: 'Bedrock',
    summary: 'Answer a body of Anthropic’s models',
  },
  body: InvokeRequest,
  errorFormat: BEDROCK_ERROR_FORMAT,
  toCall: (world, actor, body, context) => {
    const { anthropic_version: __, anthropic_beta, ...rest } = body as MessagesRequest & Json
    return messages.toCall(world, actor, rest as MessagesRequest, addBetas(context, anthropic_beta))
  },
  collectResponse: messages.collectResponse,
}

/** `POST /model/{model}/invoke-with-response-stream`. */
export const invokeStream: Dialect<'text', MessagesRequest> = {
  ...invoke,
  path: '/model/:model/invoke-with-response-stream',
  operation: {
    id: 'invokeModelWithResponseStream',
    tag: 'Bedrock',
    summary: 'Answer a body of Anthropic’s models as a stream',
  },
  streaming: createStreaming<MessagesRequest>(() => toChunk, toChunk({ type: 'ping' })),
}
