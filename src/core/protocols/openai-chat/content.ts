import { type Json, objects, text } from '../../kernel/json.ts'
import type { AudioDelta } from '../../language/part.ts'

/** What of a message's content is said. Mistral answers with a list of parts where others have a text. */
export const saidIn = (content: unknown): string =>
  typeof content === 'string' ? content : joined(content, part => (part.type === 'text' ? (text(part.text) ?? '') : ''))

/** What of it is thought: Mistral thinks in parts of the content, each with a list of texts. */
export const thoughtIn = (content: unknown): string => joined(content, part => (part.type === 'thinking' ? saidIn(part.thinking) : ''))

const joined = (parts: unknown, words: (part: Json) => string): string => objects(parts).map(words).join('')

/** A piece of sound, without what is of another type than it should be. */
export const audioOf = ({ id, data, transcript, expires_at }: Json): AudioDelta => ({
  ...(typeof id === 'string' ? { id } : {}),
  ...(typeof data === 'string' ? { data } : {}),
  ...(typeof transcript === 'string' ? { transcript } : {}),
  ...(typeof expires_at === 'number' ? { expires_at } : {}),
})
