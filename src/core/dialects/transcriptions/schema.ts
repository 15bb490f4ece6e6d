import { type Static, Type } from '@sinclair/typebox'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../kernel/schema-builders.ts'
import { providerWithOptions, routingFields } from '../routing.ts'
import { dryRunFields } from '../schema.ts'

/**
 * The transcription request (wire reference B.3), as JSON and as a form. `prompt` and the formats
 * but two are OpenAI's own. Fields that are not named here are refused.
 */

const MAX_GRANULARITIES = 2

const FIELDS = {
  model: SomeName,
  language: optional(
    Type.String({ pattern: '^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?$', maxLength: 12 }),
  ),
  prompt: optional(Type.String({ minLength: 1, maxLength: 10_000 })),
  response_format: optional(oneOf('json', 'verbose_json', 'text', 'srt', 'vtt')),
  temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
  timestamp_granularities: optional(
    list(oneOf('word', 'segment'), { maxItems: MAX_GRANULARITIES }),
  ),
}

const { user, session_id, trace } = routingFields

/** The body of `POST /audio/transcriptions` as JSON. */
export const TranscriptionRequest = Type.Object(
  {
    ...FIELDS,
    input_audio: Type.Object({ data: SomeContent, format: SomeName }, open),
    provider: providerWithOptions,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  closed,
)

/** The fields of the same as a form, beside its file. */
export const TranscriptionForm = Type.Object(FIELDS, closed)

export type TranscriptionBody =
  | Static<typeof TranscriptionRequest>
  | (Static<typeof TranscriptionForm> & { input_audio?: undefined; debug?: null })
