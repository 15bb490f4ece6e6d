import type { GatewayError } from '../../errors.ts'
import type { AnswerFilter } from '../../inference/kinds.ts'
import { isObject, type Json, readString } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Message, ParsedFile } from '../../language/message.ts'
import type { TextPart } from '../../language/part.ts'
import { hashFile } from './parsing.ts'

/**
 * Takes the annotations of parsed files out of a conversation: clients send them back with the
 * answers that had them, so that a file is parsed once. Providers do not know them.
 */
export function takeAnnotations(call: TextCall): {
  call: TextCall
  known: Map<string, ParsedFile>
} {
  const known = new Map<string, ParsedFile>()
  if (!call.messages.some(hasAnnotations)) return { call, known }
  const messages = call.messages.map(message => takeFromMessage(message, known))
  return { call: { ...call, messages }, known }
}

const hasAnnotations = ({ role, extra }: Message) =>
  role === 'assistant' && Array.isArray(extra?.annotations)

function takeFromMessage(message: Message, known: Map<string, ParsedFile>): Message {
  if (!hasAnnotations(message)) return message
  const { annotations, ...others } = message.extra as Json & { annotations: unknown[] }
  const left = annotations.filter(annotation => !takeFile(annotation, known))
  if (left.length === annotations.length) return message
  const extra = left.length > 0 ? { ...others, annotations: left } : others
  const { extra: _, ...rest } = message
  return Object.keys(extra).length > 0 ? { ...rest, extra } : rest
}

/** Notes a parsed file; tells whether the annotation is one. */
function takeFile(annotation: unknown, known: Map<string, ParsedFile>): boolean {
  if (!isObject(annotation) || annotation.type !== 'file' || !isObject(annotation.file))
    return false
  const { hash, content } = annotation.file
  const texts = (Array.isArray(content) ? content : []).flatMap(readText)
  if (typeof hash === 'string' && texts.length > 0)
    known.set(hash, { type: readString(annotation.file.type) ?? 'unknown', blocks: texts })
  return true
}

function readText(part: unknown): Block[] {
  const text = isObject(part) && part.type === 'text' ? readString(part.text) : null
  return text === null ? [] : [{ type: 'text', text }]
}

/**
 * Adds an annotation for each parsed file to the beginning of an answer, with its words as content
 * filters left them.
 */
export class AnnotationFilter implements AnswerFilter<TextPart> {
  #annotations: TextPart[]
  readonly blocked: GatewayError | null = null

  private constructor(annotations: TextPart[]) {
    this.#annotations = annotations
  }

  /** Creates the filter for the files of a call; null if none was parsed. */
  static create(call: TextCall): AnnotationFilter | null {
    const annotations = listAnnotations(call)
    return annotations.length > 0 ? new AnnotationFilter(annotations) : null
  }

  async read(parts: TextPart[]): Promise<TextPart[]> {
    const annotations = this.#annotations
    this.#annotations = []
    return annotations.length > 0 ? [...annotations, ...parts] : parts
  }

  async end(): Promise<TextPart[]> {
    return []
  }
}

function listAnnotations({ messages }: TextCall): TextPart[] {
  const files = new Map<string, TextPart>()
  for (const { blocks } of messages)
    for (const block of blocks) {
      const { file_data } = block.type === 'file' ? block.file : {}
      if (block.type !== 'file' || !block.parsed || file_data === undefined) continue
      const hash = hashFile(file_data)
      const annotation = renderAnnotation(block.parsed, hash, block.file.filename)
      files.set(hash, { type: 'annotation', choice: 0, annotation })
    }
  return [...files.values()]
}

const renderAnnotation = ({ type, blocks }: ParsedFile, hash: string, name = 'file') => ({
  type: 'file',
  file: { hash, name, type, content: blocks.flatMap(renderText) },
})

const renderText = (block: Block) =>
  block.type === 'text' ? [{ type: 'text', text: block.text }] : []
