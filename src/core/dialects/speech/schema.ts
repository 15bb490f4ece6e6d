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
import type { SpeechFormat } from '../../language/speech.ts'
import { providerWithOptions, routingFields } from '../routing.ts'
import { dryRunFields } from '../schema.ts'

/**
 * The speech request (wire reference B.3). `instructions` and the formats but two are OpenAI's own.
 * Fields that are not named here are refused: one that a provider reads may change what is charged.
 */

const FORMATS = ['pcm', 'mp3', 'wav', 'opus', 'flac', 'aac'] as const satisfies SpeechFormat[]

const SampleAudio = Type.Object(
  {
    type: Type.Literal('input_audio'),
    input_audio: Type.Object({ data: SomeContent, format: SomeName }, open),
  },
  open,
)
const SampleText = Type.Object(
  { type: Type.Literal('text'), text: Type.String({ minLength: 1, maxLength: 10_000 }) },
  open,
)
/** The recording of a voice, with its transcript. */
const MAX_REFERENCES = 2

const { user, session_id, trace } = routingFields

/** The longest text: ElevenLabs takes as many characters, others fewer. */
const LONGEST_INPUT = 40_000

/** The body of `POST /audio/speech`. */
export const SpeechRequest = Type.Object(
  {
    model: SomeName,
    input: Type.String({ minLength: 1, maxLength: LONGEST_INPUT }),
    input_references: optional(
      list(Type.Union([SampleAudio, SampleText]), { maxItems: MAX_REFERENCES }),
    ),
    instructions: optional(Type.String({ minLength: 1, maxLength: LONGEST_INPUT })),
    response_format: optional(oneOf(...FORMATS)),
    speed: optional(Type.Number({ minimum: 0.25, maximum: 4 })),
    stream_format: optional(oneOf('audio', 'sse')),
    voice: optional(Type.Union([SomeName, Type.Object({ id: SomeName }, closed)])),
    provider: providerWithOptions,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  closed,
)
export type SpeechRequest = Static<typeof SpeechRequest>
