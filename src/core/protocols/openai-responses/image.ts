import { pictureType } from '../../kernel/data-url.ts'
import { type Json, text } from '../../kernel/json.ts'

/** The picture that an `image_generation_call` came to, as a URL; null where it came to none. */
export function imageOf({ result, output_format }: Json): string | null {
  const made = text(result)
  if (!made) return null
  if (/^(https?|data):/.test(made)) return made
  // Not every server says what it made.
  return `data:${pictureType(made) ?? `image/${formatOf(output_format)}`};base64,${made}`
}

const formatOf = (given: unknown) => (typeof given === 'string' && /^[a-z]{3,4}$/.test(given) ? given : 'png')
