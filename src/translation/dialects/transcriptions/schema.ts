import { type Static, Type } from '@sinclair/typebox'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../../base/schema-builders.ts'
import { providerWithOptions, routingFields } from '../routing.ts'
import { dryRunFields } from '../schema.ts'

/**
 * The transcription request (wire reference B.3), as JSON and as a form. `prompt` and the formats
 * but two are OpenAI's own. Fields that are not named here are refused.
 */

const MAX_GRANULARITIES = 2

/** The most speakers that OpenAI's model can be told of, and words that any takes. */
const MAX_SPEAKERS = 4
const MAX_HINTS = 1_000

const Milliseconds = Type.Integer({ minimum: 0, maximum: 600_000 })

const { user, session_id, trace, stream } = routingFields

const FIELDS = {
  model: SomeName,
  language: optional(
    Type.String({ pattern: '^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?$', maxLength: 12 }),
  ),
  prompt: optional(Type.String({ minLength: 1, maxLength: 10_000 })),
  response_format: optional(oneOf('json', 'verbose_json', 'text', 'srt', 'vtt', 'diarized_json')),
  temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
  timestamp_granularities: optional(
    list(oneOf('word', 'segment'), { maxItems: MAX_GRANULARITIES }),
  ),
  chunking_strategy: optional(
    Type.Union([
      Type.Literal('auto'),
      Type.Object(
        {
          type: Type.Literal('server_vad'),
          prefix_padding_ms: optional(Milliseconds),
          silence_duration_ms: optional(Milliseconds),
          threshold: optional(Type.Number({ minimum: 0, maximum: 1 })),
        },
        closed,
      ),
    ]),
  ),
  include: optional(list(oneOf('logprobs'), { maxItems: 1 })),
  keywords: optional(list(SomeName, { maxItems: MAX_HINTS })),
  languages: optional(list(SomeName, { maxItems: MAX_HINTS })),
  known_speaker_names: optional(list(SomeName, { maxItems: MAX_SPEAKERS })),
  known_speaker_references: optional(list(SomeContent, { maxItems: MAX_SPEAKERS })),
  stream,
}

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
