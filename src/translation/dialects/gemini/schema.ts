import { type Static, Type } from '@sinclair/typebox'
import {
  Content as LongText,
  list,
  Name,
  open,
  optional,
  SomeName,
} from '../../../base/schema-builders.ts'
import { routingFields } from '../routing.ts'
import { AnyObject, dryRunFields, MAX_TOOLS } from '../schema.ts'

/**
 * The body of `generateContent` and `streamGenerateContent` of the Gemini API. Google takes names in
 * camelCase and in snake_case: `request.ts` reads both. What is not named here is for Google’s own
 * models.
 */

/** The most parts of one content, and contents of one conversation. */
const MAX_PARTS = 100_000

const Part = AnyObject

const Content = Type.Object(
  { role: optional(Name), parts: optional(list(Part, { maxItems: MAX_PARTS })) },
  open,
)
export type GeminiContent = Static<typeof Content>

/** Instructions are a content, or a text. */
const Instructions = optional(Type.Union([LongText, Content]))

const { models, provider, plugins, session_id, trace, user } = routingFields

export const GeminiRequest = Type.Object(
  {
    ...{ models, provider, plugins, session_id, trace, user },
    model: optional(SomeName),
    contents: Type.Union([LongText, Content, list(Content, { minItems: 1, maxItems: MAX_PARTS })]),
    systemInstruction: Instructions,
    system_instruction: Instructions,
    tools: optional(list(AnyObject, { maxItems: MAX_TOOLS })),
    toolConfig: optional(AnyObject),
    tool_config: optional(AnyObject),
    generationConfig: optional(AnyObject),
    generation_config: optional(AnyObject),
    debug: optional(Type.Object(dryRunFields, open)),
  },
  open,
)
/** The body, with what the path says: the model, and whether the answer streams. */
export type GeminiRequest = Static<typeof GeminiRequest> & { model: string; stream: boolean }

/** The body of `countTokens`: a conversation, or the whole request that it is part of. */
export const GeminiCountRequest = Type.Object(
  {
    contents: optional(GeminiRequest.properties.contents),
    generateContentRequest: optional(GeminiRequest),
  },
  open,
)
export type GeminiCountRequest = Static<typeof GeminiCountRequest>

/** How the members of `generationConfig` are to be. All others go on to Google’s own models. */
export const GenerationConfig = Type.Object(
  {
    temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
    topP: optional(Type.Number({ minimum: 0, maximum: 1 })),
    topK: optional(Type.Number({ minimum: 0 })),
    maxOutputTokens: optional(Type.Integer({ minimum: 1 })),
    candidateCount: optional(Type.Integer({ minimum: 1, maximum: 8 })),
    stopSequences: optional(list(SomeName, { maxItems: 8_191 })),
    presencePenalty: optional(Type.Number()),
    frequencyPenalty: optional(Type.Number()),
    seed: optional(Type.Integer()),
    responseMimeType: optional(Name),
    responseSchema: optional(AnyObject),
    responseJsonSchema: optional(Type.Unknown()),
    responseModalities: optional(list(Name, { maxItems: 8 })),
    responseLogprobs: optional(Type.Boolean()),
    logprobs: optional(Type.Integer({ minimum: 0, maximum: 20 })),
    thinkingConfig: optional(
      Type.Object(
        {
          includeThoughts: optional(Type.Boolean()),
          thinkingBudget: optional(Type.Integer({ minimum: -1 })),
          thinkingLevel: optional(Name),
        },
        open,
      ),
    ),
    imageConfig: optional(AnyObject),
  },
  open,
)
export type GenerationConfig = Static<typeof GenerationConfig>
