import type { FinishReason } from '../../language/part.ts'

/** What servers say when an answer ends: the words for one reason, and who says so where. */
interface End {
  /** Null for what is said while the answer goes on. */
  reason: FinishReason | null
  /** In lower case, with `_` for every dash and space. */
  words: string[]
  source: string
}

/**
 * Why an answer ended, by the word that its server has for it, whatever the protocol. A word that
 * is not here is an error: what a server does not explain may be a cut. An operator adds words of
 * their own servers with `providers.X.finish_reasons`.
 */
export const ENDS: End[] = [
  {
    reason: 'stop',
    words: ['stop'],
    source: 'OpenAI API reference, Chat; Google, Candidate.FinishReason',
  },
  { reason: 'length', words: ['length'], source: 'OpenAI API reference, Chat' },
  {
    reason: 'tool_calls',
    words: ['tool_calls', 'function_call'],
    source: 'OpenAI API reference, Chat; some servers with Google’s API say FUNCTION_CALL',
  },
  {
    reason: 'content_filter',
    words: ['content_filter'],
    source: 'OpenAI API reference, Chat and Responses',
  },
  { reason: 'stop', words: ['completed'], source: 'OpenAI API reference, Response.status' },
  {
    reason: 'length',
    words: ['incomplete', 'max_output_tokens'],
    source: 'OpenAI API reference, Response.status and incomplete_details',
  },
  { reason: 'error', words: ['error'], source: 'wire reference C.6; Cohere; TensorRT-LLM' },
  {
    reason: 'stop',
    words: ['end_turn', 'stop_sequence', 'pause_turn', 'compaction'],
    source: 'Anthropic, Handling stop reasons: a pause may be continued, as the word tells',
  },
  {
    reason: 'length',
    words: ['max_tokens', 'model_context_window_exceeded'],
    source: 'Anthropic, Handling stop reasons; Google; litellm map_finish_reason; Z.ai chat docs',
  },
  {
    reason: 'tool_calls',
    words: ['tool_use', 'tooluse'],
    source: 'Anthropic, Handling stop reasons; litellm map_finish_reason; pi-ai StopReason',
  },
  { reason: 'content_filter', words: ['refusal'], source: 'Anthropic, Handling stop reasons' },
  {
    reason: 'content_filter',
    words: ['content_filtered', 'guardrail_intervened'],
    source: 'Bedrock API reference, Converse, stopReason',
  },
  {
    reason: 'error',
    words: ['malformed_model_output', 'malformed_tool_use'],
    source: 'Bedrock API reference, Converse, stopReason',
  },
  {
    reason: 'length',
    words: ['continuation'],
    source: 'Google: a very long answer stops at the limit of one request',
  },
  {
    reason: 'content_filter',
    words: [
      ...['safety', 'recitation', 'blocklist', 'prohibited_content', 'spii', 'model_armor'],
      ...['image_safety', 'image_prohibited_content', 'image_recitation', 'jailbreak'],
    ],
    source: 'Google, Candidate.FinishReason and PromptFeedback.BlockReason',
  },
  {
    reason: 'error',
    words: [
      ...['language', 'other', 'image_other', 'no_image', 'finish_reason_unspecified'],
      ...['malformed_function_call', 'malformed_response', 'missing_thought_signature'],
      ...['unexpected_tool_call', 'too_many_tool_calls'],
    ],
    source: 'Google, Candidate.FinishReason; the AI SDK says other, too',
  },
  { reason: 'stop', words: ['complete'], source: 'Cohere API reference, Chat' },
  { reason: 'tool_calls', words: ['tool_call'], source: 'Cohere API reference, Chat' },
  { reason: 'error', words: ['timeout'], source: 'Cohere API reference, Chat; TensorRT-LLM' },
  {
    reason: 'content_filter',
    words: ['error_toxic'],
    source: 'Cohere, version 1, which some hosts of its models still send',
  },
  { reason: 'length', words: ['error_limit'], source: 'Cohere, version 1' },
  { reason: 'stop', words: ['user_cancel'], source: 'Cohere, version 1' },
  { reason: 'length', words: ['model_length'], source: 'Mistral API reference, Chat' },
  { reason: 'stop', words: ['eos'], source: 'Together, inference docs; llama.cpp’s own API' },
  { reason: 'error', words: ['insufficient_system_resource'], source: 'DeepSeek API docs, Chat' },
  {
    reason: 'content_filter',
    words: ['sensitive'],
    source: 'Zhipu/Z.ai chat docs; Tencent Hunyuan',
  },
  { reason: 'error', words: ['network_error'], source: 'Zhipu/Z.ai chat docs' },
  {
    reason: 'error',
    words: ['abort', 'aborted'],
    source: 'vllm-project/vllm#57082: an engine that shuts down; SGLang; pi-ai StopReason',
  },
  { reason: 'length', words: ['repetition'], source: 'vLLM: an answer that repeats itself is cut' },
  {
    reason: 'stop',
    words: ['eos_token'],
    source: 'Hugging Face TGI, FinishReason; IBM watsonx.ai, text generation',
  },
  { reason: 'stop', words: ['word'], source: 'llama.cpp’s own API, stop_type' },
  { reason: 'length', words: ['limit'], source: 'llama.cpp’s own API, stop_type' },
  { reason: 'stop', words: ['eosfound', 'stopstringfound'], source: 'LM Studio, stopReason' },
  {
    reason: 'length',
    words: ['maxpredictedtokensreached', 'contextlengthreached'],
    source: 'LM Studio, stopReason',
  },
  { reason: 'tool_calls', words: ['toolcalls'], source: 'LM Studio, stopReason' },
  {
    reason: 'error',
    words: ['userstopped', 'modelunloaded', 'failed'],
    source: 'LM Studio, stopReason; OpenAI API reference, Response.status',
  },
  {
    reason: 'length',
    words: ['token_limit', 'time_limit'],
    source: 'IBM watsonx.ai, text generation, stop_reason',
  },
  {
    reason: 'error',
    words: ['cancelled'],
    source: 'IBM watsonx.ai; TensorRT-LLM; OpenAI API reference, Response.status',
  },
  { reason: 'error', words: ['unknown'], source: 'AI SDK, LanguageModelV2FinishReason' },
  {
    reason: null,
    words: ['null', 'none', 'not_finished', 'unfinished', 'in_progress'],
    source: 'Alibaba DashScope says "null" in every event but the last; IBM watsonx.ai',
  },
]
