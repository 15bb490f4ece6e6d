import type { Endpoint } from '../../catalog/models.ts'
import { type Json, parseObject } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block } from '../../language/message.ts'
import { conversationOf, type Message, type ToolResult } from '../conversation.ts'
import { foreignContent } from '../native.ts'
import { inputObject, type ToolNames } from '../tools.ts'
import type { Capabilities } from './capabilities.data.ts'
import { capabilitiesOf } from './capabilities.ts'
import { type MediaBlock, mediaPart } from './media.ts'
import { LOST_SIGNATURE, mediaId, Signatures } from './signatures.ts'
import { isVertex } from './vertex.ts'

/** What the parts of a conversation depend on. */
interface Manner {
  names: ToolNames
  capabilities: Capabilities
  /** Vertex has no place for the ids of calls: it goes by names and order. */
  takesIds: boolean
}

/** The conversation as `contents`, and its instructions where the model has a place for them. */
export function contentsOf(call: TextCall, endpoint: Endpoint, names: ToolNames): Json {
  const { system, messages } = conversationOf(call.turns)
  const manner = { names, capabilities: capabilitiesOf(endpoint), takesIds: !isVertex(endpoint) }
  const contents = messages.map(message => content(message, manner)).filter(({ parts }) => parts.length > 0)
  const said = system.flatMap(block => (block.type === 'text' ? [{ text: block.text }] : []))
  if (said.length === 0) return { contents }
  if (manner.capabilities.systemInstruction && contents.length > 0) return { systemInstruction: { parts: said }, contents }
  return { contents: opened(contents, said) }
}

interface Content {
  role: 'user' | 'model'
  parts: Json[]
}

// Where instructions have no place, and where nothing else was said, they are what the user says first.
function opened(contents: Content[], said: Json[]): Content[] {
  const [first, ...rest] = contents
  if (first?.role !== 'user') return [{ role: 'user', parts: said }, ...contents]
  return [{ role: 'user', parts: [...said, ...first.parts] }, ...rest]
}

const content = ({ role, blocks }: Message, manner: Manner): Content =>
  role === 'user' ? { role, parts: userParts(blocks, manner) } : { role: 'model', parts: modelParts(blocks, manner) }

// The results stand together; what they hold besides words follows, where it has no place in them.
function userParts(blocks: (Block | ToolResult)[], manner: Manner): Json[] {
  const results = blocks.filter(block => block.type === 'tool-result')
  const shown = manner.capabilities.mediaInResults ? [] : results.flatMap(({ blocks: inner }) => inner.filter(isMedia).map(mediaPart))
  const said = blocks.flatMap(block => (block.type === 'tool-result' ? [] : saidPart(block)))
  return [...results.map(result => functionResponse(result, manner)), ...shown, ...said]
}

function saidPart(block: Block): Json[] {
  switch (block.type) {
    case 'text':
    case 'refusal':
      return [{ text: block.text }]
    case 'image':
    case 'audio':
    case 'video':
    case 'file':
      return [mediaPart(block)]
    case 'other':
      throw foreignContent(block)
    default:
      return []
  }
}

const isMedia = (block: Block): block is MediaBlock => ['image', 'audio', 'video', 'file'].includes(block.type)

function functionResponse({ id, name, blocks, is_error }: ToolResult, { names, capabilities, takesIds }: Manner): Json {
  const foreign = blocks.find(block => block.type === 'other')
  if (foreign) throw foreignContent(foreign)
  const said = blocks.flatMap(block => (block.type === 'text' || block.type === 'refusal' ? [block.text] : [])).join('\n')
  const media = capabilities.mediaInResults ? blocks.filter(isMedia).map(mediaPart) : []
  return {
    functionResponse: {
      ...(takesIds ? { id } : {}),
      name: names.sent(name),
      response: is_error ? { error: said } : responseOf(said),
      ...(media.length > 0 ? { parts: media } : {}),
    },
  }
}

// An object goes as it is, any other answer under the name that Google documents. `$ref` points to a picture there.
const responseOf = (said: string): Json => (said.includes('"$ref"') ? undefined : parseObject(said)) ?? { output: said }

function modelParts(given: (Block | ToolResult)[], manner: Manner): Json[] {
  // What another provider ran itself is of no use here.
  const blocks = given.filter(block => block.type !== 'tool-result' && block.type !== 'other')
  const signatures = new Signatures(blocks)
  const media = blocks.filter(isMedia)
  const said = blocks.flatMap(block => (isMedia(block) ? [signedMedia(block, media.indexOf(block), signatures)] : saidPart(block)))
  const calls = blocks.filter(block => block.type === 'tool-call')
  return [
    ...signatures.opening,
    ...signedTexts(said, signatures.ofTexts),
    ...calls.map((call, i) => functionCall(call, i, signatures, manner)),
  ]
}

function signedMedia(block: MediaBlock, at: number, signatures: Signatures): Json {
  const thoughtSignature = signatures.of(mediaId(at))
  return { ...mediaPart(block), ...(thoughtSignature === undefined ? {} : { thoughtSignature }) }
}

// The signature of a text comes with its last piece. One for which there is no text has a part of its own.
function signedTexts(said: Json[], signatures: readonly string[]): Json[] {
  const last = signatures.at(-1)
  if (last === undefined) return said
  const alone = signatures.slice(0, -1).map(thoughtSignature => ({ text: '', thoughtSignature }))
  const at = said.findLastIndex(part => 'text' in part)
  if (at === -1) return [...alone, { text: '', thoughtSignature: last }, ...said]
  return [...alone, ...said.map((part, i) => (i === at ? { ...part, thoughtSignature: last } : part))]
}

type Call = Extract<Block, { type: 'tool-call' }>

// The first call of a turn has to have a signature; those beside it need none.
function functionCall({ id, name, input }: Call, at: number, signatures: Signatures, { names, capabilities, takesIds }: Manner): Json {
  const thoughtSignature = signatures.of(id) ?? (at === 0 && capabilities.signedCalls ? LOST_SIGNATURE : undefined)
  return {
    functionCall: { ...(takesIds ? { id } : {}), name: names.sent(name), args: inputObject(input, 'arguments') },
    ...(thoughtSignature === undefined ? {} : { thoughtSignature }),
  }
}
