import { expect, test } from 'bun:test'
import { readExtraFields } from '../../../src/translation/dialects/routing.ts'

const read = (name: string) => readExtraFields({ model: 'm', [name]: 1 }, new Set(['model']))

test.each([
  ['max_token', 'max_tokens'],
  ['max_tokns', 'max_tokens'],
  ['max_tokn', 'max_tokens'],
  ['max_output_token', 'max_output_tokens'],
  ['max_completions_tokens', 'max_completion_tokens'],
  ['providers', 'provider'],
  ['provder', 'provider'],
  ['plugin', 'plugins'],
  ['stop_server_tool_when', 'stop_server_tools_when'],
])('a misspelt bound is refused: %s', (name, meant) => {
  expect(() => read(name)).toThrow(`${name}: expected no such field; did you mean "${meant}"?`)
})

// Names that servers have, from their API references: none of them is a misspelling.
const NAMES =
  `min_tokens maxTokens maxOutputTokens store speed thinking thinking_budget stop_token_ids
  repetition_penalty min_p top_a guided_json guided_regex chat_template_kwargs enable_thinking
  ignore_eos skip_special_tokens best_of use_beam_search length_penalty max_new_tokens n_predict
  num_ctx num_predict keep_alive mirostat tfs_z typical_p prompt_id safe_prompt random_seed
  generationConfig additionalModelRequestFields documents citation_options search_parameters
  return_images search_domain_filter web_search_options verbosity prediction modalities mode
  priority guardrailConfig performanceConfig context_management container mcp_servers betas
  prompt_cache_retention safety_identifier max_input_tokens max_prompt_tokens`.split(/\s+/)

test.each(NAMES)('%s travels on', name => {
  expect(read(name)).toEqual({ [name]: 1 })
})
