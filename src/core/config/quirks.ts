import { type Static, Type } from '@sinclair/typebox'
import { closed, nullable, oneOf } from '../kernel/schema-builders.ts'

const choice = <const Words extends readonly string[]>(words: Words, description: string) =>
  Type.Union(oneOf(...words).anyOf, { description })

/** In what a server that speaks OpenAI's chat differs from the others. */
export const Quirks = Type.Object(
  {
    api_version: nullable(Type.String({ minLength: 1 }), {
      description: 'Azure’s dated API: the deployment is in the path then, and this in the query',
    }),
    output_bound: choice(
      ['max_tokens', 'max_completion_tokens'],
      'What the output bound is called',
    ),
    reasoning: choice(
      ['effort', 'object', 'thinking', 'enable_thinking', 'template', 'none'],
      'How reasoning is asked for: reasoning_effort, the whole object, thinking: { type }, enable_thinking with a budget, the chat template’s switch, not at all',
    ),
    reasoning_back: choice(
      ['details', 'reasoning', 'reasoning_content', 'content', 'none'],
      'Where the model’s earlier thinking goes back to: reasoning with its reasoning_details, a field of the message, a part of its content, nowhere',
    ),
    developer_role: Type.Boolean({
      description: 'Knows the role developer; else its words are a system message',
    }),
    names: Type.Boolean({
      description: 'Takes a name beside a message; else it stands before the text',
    }),
    alternating: Type.Boolean({
      description: 'Wants user and assistant in turns: neighbours of one role become one message',
    }),
    cache_markers: Type.Boolean({ description: 'Takes cache_control' }),
    think_tags: Type.Boolean({
      description: 'May think aloud between <think> and </think> in the text',
    }),
    tool_call_ids: choice(
      ['any', 'nine'],
      'Which ids a tool call may have: any, or exactly nine letters and digits',
    ),
    required_tool: choice(['required', 'any'], 'The word for "call some tool"'),
    json_schema: Type.Boolean({
      description:
        'Takes response_format json_schema; else the schema is said in words beside json_object',
    }),
    json_word: Type.Boolean({
      description: 'Refuses json_object unless the conversation holds the word JSON',
    }),
    prefill: choice(
      ['plain', 'prefix', 'partial'],
      'What marks a last message of the assistant as one to be gone on with',
    ),
    counts_stream: Type.Boolean({ description: 'Knows stream_options.include_usage' }),
    most_stops: nullable(Type.Integer({ minimum: 1 }), {
      description: 'How many stop sequences it takes; null: any number',
    }),
    web_search: Type.Boolean({ description: 'Searches the web itself, as web_search_options say' }),
    renamed: Type.Record(Type.String(), Type.String(), {
      description: 'Parameters under other names',
    }),
    dropped: Type.Array(Type.String(), { description: 'Parameters that it refuses' }),
  },
  closed,
)
export type Quirks = Static<typeof Quirks>

/** Of a server that nobody knows more of. */
export const NO_QUIRKS: Quirks = {
  api_version: null,
  output_bound: 'max_tokens',
  reasoning: 'effort',
  reasoning_back: 'details',
  developer_role: true,
  names: true,
  alternating: false,
  cache_markers: true,
  think_tags: false,
  tool_call_ids: 'any',
  required_tool: 'required',
  json_schema: true,
  json_word: false,
  prefill: 'plain',
  counts_stream: true,
  most_stops: null,
  web_search: false,
  renamed: {},
  dropped: [],
}
