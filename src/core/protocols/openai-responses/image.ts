import { type Json, text } from '../../kernel/json.ts'

/** How base64 begins for each kind of picture: not every server says what it made. */
const BEGINNINGS: [start: string, format: string][] = [
  ['iVBOR', 'png'],
  ['/9j/', 'jpeg'],
  ['UklGR', 'webp'],
  ['R0lGOD', 'gif'],
]

/** The picture that an `image_generation_call` came to, as a URL; null where it came to none. */
export function imageOf({ result, output_format }: Json): string | null {
  const made = text(result)
  if (!made) return null
  if (/^(https?|data):/.test(made)) return made
  const format = BEGINNINGS.find(([start]) => made.startsWith(start))?.[1] ?? formatOf(output_format)
  return `data:image/${format};base64,${made}`
}

const formatOf = (given: unknown) => (typeof given === 'string' && /^[a-z]{3,4}$/.test(given) ? given : 'png')
