import { invalid } from '../../base/errors.ts'
import type { DialectName, TextDialect } from '../../language/dialect.ts'
import { converseStream, invokeStream } from './bedrock.ts'
import { chat, completions } from './chat.ts'
import type { Dialect, PresetForm } from './dialect.ts'
import { embeddings } from './embeddings.ts'
import { gemini } from './gemini.ts'
import { images } from './images.ts'
import { messages } from './messages.ts'
import { rerank } from './rerank.ts'
import { responses } from './responses.ts'
import { speech } from './speech.ts'
import { transcriptions } from './transcriptions.ts'
import { videos } from './videos.ts'

/** Every dialect. The server adds their routes in this order. */
export const dialects: readonly Dialect[] = [
  chat,
  completions,
  messages,
  responses,
  embeddings,
  rerank,
  images,
  speech,
  transcriptions,
  videos,
]

/** The dialects of doors beside the base URL. `server/doors.ts` has their paths. */
export const doorDialects: readonly Dialect[] = [
  gemini as Dialect,
  converseStream as unknown as Dialect,
  invokeStream as Dialect,
]

/** Every form of request that presets can be made from. */
export const presetForms: readonly PresetForm[] = dialects.flatMap(({ preset }) => preset ?? [])

/** Finds a dialect by its name. Throws 400 if there is none. */
export const findDialect = (name: DialectName): Dialect => findByName(dialects, name)

/** Finds the form of a dialect's preset requests. Throws 400 if there is none. */
export const findPresetForm = (name: TextDialect): PresetForm => findByName(presetForms, name)

function findByName<Entry extends { name: string }>(
  entries: readonly Entry[],
  name: string,
): Entry {
  const entry = entries.find(entry => entry.name === name)
  if (entry) return entry
  const names = entries.map(entry => entry.name).join(', ')
  throw invalid(`dialect: expected one of ${names}`, 'dialect')
}
