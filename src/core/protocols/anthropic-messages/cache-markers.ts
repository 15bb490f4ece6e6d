import { isObject, type Json, objects } from '../../kernel/json.ts'

/** A request may mark this many places. */
const MOST_MARKERS = 4

/**
 * Leaves at most four cache markers in a request: the automatic one goes first, then the earliest, because the later ones cover
 * what stands before them. Changes the body, whose blocks are its own.
 */
export function withinFour(body: Json): Json {
  const marked = [...objects(body.tools), ...blocksOf(body.system), ...objects(body.messages).flatMap(({ content }) => blocksOf(content))]
    .flatMap(block => [...blocksOf(block.type === 'tool_result' ? block.content : undefined), block])
    .filter(block => isObject(block.cache_control))
  if (marked.length + (body.cache_control === undefined ? 0 : 1) > MOST_MARKERS) delete body.cache_control
  for (const block of marked.slice(0, Math.max(marked.length - MOST_MARKERS, 0))) delete block.cache_control
  return body
}

const blocksOf = (content: unknown): Json[] => objects(content)

/**
 * The automatic marker as one on the last block, which is what it stands for, for hosts that know no other. Changes the body,
 * whose blocks are its own.
 */
export function atTheEnd({ cache_control, ...body }: Json): Json {
  const last = objects(body.messages).at(-1)
  if (cache_control === undefined || !last) return body
  if (typeof last.content === 'string') last.content = [{ type: 'text', text: last.content }]
  const block = blocksOf(last.content).at(-1)
  if (block && !isThinking(block)) block.cache_control ??= cache_control
  return body
}

const isThinking = ({ type }: Json): boolean => type === 'thinking' || type === 'redacted_thinking'
