import type { ErrorType, Trouble } from '../../base/errors.ts'

/** What providers say when they refuse a request or fail at it, and what that is for our caller. */
export interface Refusal {
  type: ErrorType
  /** What its operator has to mend at the provider. */
  trouble?: Trouble
  /** The machine-readable codes that mean it. */
  codes?: string[]
  /** Parts of codes that mean it. */
  named?: RegExp
  /** Sentences that mean it, among the codes and the first words of the message. */
  says?: RegExp
  /** The statuses at which it is meant. At any if absent; an error in a stream may have none. */
  at?: (status: number) => boolean
  source: string
}

const isNotBusy = (status: number): boolean => status !== 429
const isRefusal = (status: number): boolean => status < 500
const isPlainRefusal = (status: number): boolean => status < 500 && status !== 429

/** Statuses that say no more than the vaguest codes do, which servers send beside any status. */
const isVague = (status: number): boolean => [400, 422, 500, 502, 503].includes(status)

/**
 * Every refusal that is known by its code or its words; the first that fits counts. What no change
 * of the request would mend is the provider's failure, whatever its status, so that the next
 * endpoint is asked: `trouble` says what its operator has to mend. A code that is not here leaves it
 * to the status.
 */
export const REFUSALS: Refusal[] = [
  // The provider's own state.
  {
    type: 'provider_overloaded',
    codes: ['overloaded_error', 'engine_overloaded_error', 'system_busy'],
    says: /overloaded/i,
    source: 'Anthropic, Errors; Moonshot, Errors; ElevenLabs, Errors',
  },
  {
    type: 'provider_unavailable',
    trouble: 'balance',
    codes: [
      ...['insufficient_quota', 'billing_hard_limit_reached', 'billing_not_active'],
      ...['insufficient_balance', 'insufficient_credits', 'insufficient_user_quota'],
      ...['credit_balance_too_low', 'payment_required', 'billing_error', 'quota_exceeded'],
      ...['exceeded_current_quota_error', 'Arrearage', 'AccountOverdueError', 'BILLING_DISABLED'],
    ],
    says: new RegExp(
      [
        'credit balance is (too low|insufficient)',
        'insufficient[ _](account )?(balance|credits?|funds)',
        'billing (hard )?limit|spending limit|(monthly|usage) spend',
        'reached your specified (workspace )?API usage limits',
        '(out of|no|used all( of)? your( available)?|run out of|exhausted your) (remaining )?credits',
        '(prepay(ment)?|your) credits? (are|have been|is) (depleted|exhausted)',
        'account (is )?(not )?in (arrears|good standing)',
        'account.{0,30}(overdue|in arrears|suspended due to insufficient)',
        'account is not active, please check your billing',
        '余额不足|欠费|账户已欠费',
      ].join('|'),
      'i',
    ),
    source:
      'OpenAI, Error codes; Anthropic’s empty purse: theopenco/llmgateway#3297; DeepSeek and ' +
      'Moonshot, Errors; Alibaba DashScope; Volcengine Ark; ElevenLabs; new-api; hermes-agent’s word list',
  },
  {
    type: 'provider_unavailable',
    trouble: 'credential',
    codes: [
      ...['invalid_api_key', 'authentication_error', 'invalid_authentication_error'],
      ...[
        'authentication',
        'API_KEY_INVALID',
        'API_KEY_EXPIRED',
        'UNAUTHENTICATED',
        'InvalidApiKey',
      ],
      ...['UnrecognizedClientException', 'InvalidSignatureException', 'ExpiredTokenException'],
      ...['IncompleteSignatureException', 'MissingAuthenticationTokenException'],
      ...['CREDENTIALS_MISSING', 'ACCESS_TOKEN_EXPIRED', 'incorrect_api_key_error'],
    ],
    says: new RegExp(
      [
        '(invalid|incorrect|expired|missing|unknown|no) (x-)?(api|access|auth)[- _]?key',
        'api[- _]?key (is )?(not valid|invalid|incorrect|expired|missing|required|not found)',
        '(authentication|auth|access|bearer|security) token (is |has |in the request is )?' +
          '(invalid|expired|missing)',
        '(invalid|expired|missing) (authentication|auth|access|bearer|security) (token|credentials)',
        'no auth credentials found|authentication (failed|required)',
      ].join('|'),
      'i',
    ),
    source:
      'OpenAI, Error codes; Google, google.rpc.ErrorInfo; AWS, Common errors; hermes-agent’s ' +
      'word list',
  },
  {
    type: 'provider_unavailable',
    trouble: 'account',
    codes: [
      ...['account_deactivated', 'account_suspended', 'organization_restricted'],
      ...['permission_error', 'permission_denied_error', 'permission_denied', 'PERMISSION_DENIED'],
      ...['AccessDeniedException', 'AccessDenied', 'FAILED_PRECONDITION', 'CONSUMER_SUSPENDED'],
      ...['SERVICE_DISABLED', 'unsupported_country_region_territory', 'access_terminated_error'],
      ...['unsupported_country', 'OperationNotSupported.Region'],
    ],
    says: new RegExp(
      [
        '(account|organization|project|workspace|user|api key)( associated with this api key)? ' +
          '(is|has been|was) (deactivated|disabled|suspended|blocked|banned|terminated|restricted)',
        'must be verified to (use|stream|generate)',
        '(country|region|location).{0,30}not (supported|available|allowed)',
        'not available in your (country|region|location)',
        '(do|does) not have (access|permission) to',
        "don[’']t have (access|permission) to",
        'not (authorized|allowed|entitled|permitted) to (use|access|call|sample|invoke|perform)',
      ].join('|'),
      'i',
    ),
    at: isNotBusy,
    source: 'OpenAI, Error codes; Google, User location; Anthropic, Errors; Bedrock, Converse',
  },
  {
    type: 'provider_unavailable',
    trouble: 'model',
    codes: [
      ...['model_not_found', 'model_not_available', 'model_decommissioned', 'model_not_supported'],
      ...['invalid_model', 'unknown_model', 'unsupported_model', 'model_not_exist', 'NOT_FOUND'],
      ...['DeploymentNotFound', 'ModelNotFound', 'ResourceNotFoundException', 'not_found_error'],
      ...['not_found', 'resource_not_found_error', 'InvalidEndpointOrModel.NotFound'],
      ...['ModelNotOpen', 'model_terms_required', 'model_permission_denied'],
    ],
    says: new RegExp(
      [
        'model [`\'"“]?[\\w./:@+-]+[`\'"”]? (does not exist|(was |is )?not (found|supported|available))',
        'model [`\'"“]?[\\w./:@+-]+[`\'"”]? (is|has been) (no longer|deprecated|decommissioned|retired)',
        '(no such|unknown|invalid|unsupported) model\\b|model[_ ]not[_ ](found|exist)',
        'model.{0,80}(decommissioned|no longer (available|supported)|end of life|been retired)',
        'is not a valid model|the model identifier|model (identifier|id) is invalid|模型不存在',
        'inference profile|on-demand throughput|provisioned throughput',
      ].join('|'),
      'i',
    ),
    at: isPlainRefusal,
    source:
      'OpenAI, Error codes; Groq, Errors; DeepSeek: "Model Not Exist"; Bedrock, Converse; ' +
      'Volcengine Ark; hermes-agent’s word list',
  },
  {
    type: 'provider_unavailable',
    codes: [
      'tool_use_failed',
      'json_validate_failed',
      'output_parse_failed',
      'ModelErrorException',
    ],
    says: new RegExp(
      [
        'failed to (call a function|generate json|validate json|parse (the )?(tool|model))',
        'failed_generation|failed to parse (input at pos|tool call arguments)',
        'model (produced|generated|returned) (an )?invalid',
        'parsing failed.{0,40}(model|generated) output',
      ].join('|'),
      'i',
    ),
    source:
      'Its own output that it could not use. Groq, Errors: failed_generation; llama.cpp: ' +
      '"Failed to parse input at pos"; vLLM',
  },
  // What a change of the request would mend.
  {
    type: 'invalid_request',
    codes: [
      ...['voice_not_found', 'invalid_uid', 'invalid_voice_settings'],
      'max_character_limit_exceeded',
    ],
    source: 'ElevenLabs, Errors',
  },
  {
    type: 'string_too_long',
    codes: ['string_above_max_length', 'string_too_long'],
    says: /string too long|string should have at most \d+ characters/i,
    at: isPlainRefusal,
    source: 'OpenAI: "Expected a string with maximum length 1048576"; pydantic of vLLM and SGLang',
  },
  {
    type: 'token_limit_exceeded',
    codes: ['tokens_limit_reached', 'token_limit_exceeded'],
    says: /request body too large for .{1,60} model\. max size: \d+ tokens/i,
    at: isPlainRefusal,
    source: 'GitHub Models: the tokens of one request, which may be less than the context',
  },
  {
    type: 'context_length_exceeded',
    codes: [
      ...['context_length_exceeded', 'exceed_context_size_error', 'context_window_exceeded'],
      ...['model_context_window_exceeded', 'model_max_prompt_tokens_exceeded'],
    ],
    says: new RegExp(
      [
        // OpenAI, vLLM, OpenRouter, DeepSeek, LiteLLM, MiniMax, llama.cpp, LM Studio, Ollama, SGLang
        'context.{0,20}(length|window|limit|size).{0,60}(exceed|is \\d|overflow)',
        '(exceed|longer than|greater than|fit|overflow).{0,40}context.{0,20}(length|window|limit|size)',
        'input length and `?max_tokens`? exceed',
        // vLLM, TabbyAPI, Aphrodite
        '(longer|greater|larger) than.{0,40}(maximum model length|max_model_len|max_seq_len)',
        'exceeds the max_model_len|max_model_len of',
        // Anthropic, Bedrock, Fireworks
        '(prompt|input) is too long|prompt too long',
        // Google
        'input token count.{0,60}(exceed|only supports)',
        // xAI
        'maximum prompt length is \\d',
        // Groq
        'reduce the length of the (messages|prompt|input)',
        // Mistral
        'too large for model with \\d+ maximum context',
        // Copilot
        'prompt token count of \\d+ exceeds',
        // Kimi
        'exceeded model token limit',
        // Poolside
        'maximum allowed input length',
        // Qwen at DashScope
        'range of input length should be',
        // Z.ai
        'prompt exceeds max(imum)? length',
        // Text Generation Inference, Together
        '`?inputs`?( tokens \\+ `?max_new_tokens`?)? must (be <= \\d|have less than \\d)',
        // DwarfStar
        'the configured context size is \\d',
        // Bedrock
        'input tokens.{0,20}exceed|exceeds? the maximum (number of input tokens|(input|sequence|context) length)',
        '上下文长度|超过最大长度',
      ].join('|'),
      'i',
    ),
    at: isNotBusy,
    source:
      'earendil-works/pi overflow.ts, anomalyco/opencode and hermes-agent’s word lists, which ' +
      'have them from the servers named beside them',
  },
  {
    type: 'context_length_exceeded',
    says: new RegExp(
      [
        'context.{0,20}(length|window|limit)',
        'maximum context',
        'too many (input |total )?tokens',
        '(prompt|input).{0,40}too long',
      ].join('|'),
      'i',
    ),
    // A busy provider may mention too many tokens as well, meaning those of a minute.
    at: isPlainRefusal,
    source: 'Looser words, which count only where a request is refused',
  },
  {
    type: 'max_tokens_exceeded',
    codes: ['max_tokens_exceeded', 'max_output_tokens_exceeded'],
    says: new RegExp(
      'max_(output_|completion_|new_)?tokens.{0,60}' +
        '(too large|exceed|at most|greater|less than or equal|maximum)|' +
        'maximum (number of )?(output )?tokens you requested',
      'i',
    ),
    at: isRefusal,
    source: 'OpenAI, Anthropic and Bedrock: the output bound is larger than the model allows',
  },
  {
    type: 'refusal',
    codes: ['refusal', 'model_refusal'],
    source: 'OpenRouter, error_type: the model itself declines',
  },
  {
    type: 'content_policy_violation',
    codes: [
      ...['bio_policy', 'cyber_policy', 'data_inspection_failed', 'DataInspectionFailed'],
      ...['image_content_policy_violation', 'sensitive_content', 'invalid_prompts', '1301'],
    ],
    named: /content_?policy|content_?filter|moderation|responsibleai/i,
    says: new RegExp(
      [
        'content (filtering|management) policy|content filter(s|ing)? (blocked|triggered)',
        'output blocked by content filter|rejected (as a result of|by) our safety system',
        'may contain inappropriate content|content exists risk|data_inspection_failed',
        'flagged (as|for) (potentially )?(violating|harmful|usage policy)',
      ].join('|'),
      'i',
    ),
    at: isRefusal,
    source: 'OpenAI, Azure, Anthropic, DashScope; DeepSeek: "Content Exists Risk"; Z.ai, code 1301',
  },
  {
    type: 'invalid_prompt',
    codes: ['invalid_prompt'],
    source: 'OpenAI API reference, ResponseError',
  },
  {
    type: 'image_too_large',
    codes: ['image_too_large', 'image_file_too_large', 'file_too_large'],
    says: /image.{0,40}(exceeds \d|too large|larger than|dimensions exceed|size exceeds)/i,
    at: isPlainRefusal,
    source: 'OpenAI API reference, ResponseError; Anthropic: "image exceeds 5 MB maximum"; fal.ai',
  },
  {
    type: 'image_too_small',
    codes: ['image_too_small'],
    says: /image.{0,60}(too small|smaller than|at least \d+ ?(pixels|px|x))/i,
    at: isPlainRefusal,
    source: 'OpenAI API reference, ResponseError; fal.ai; Qwen: "larger than 10"',
  },
  {
    type: 'unsupported_image_format',
    codes: [
      ...['unsupported_image_format', 'invalid_image_format', 'unsupported_image_media_type'],
    ],
    says: new RegExp(
      'unsupported image|image.{0,30}(format|type|media type).{0,30}(not supported|unsupported)|' +
        'only.{0,40}(png|jpeg).{0,60}(supported|accepted)',
      'i',
    ),
    at: isPlainRefusal,
    source: 'OpenAI API reference, ResponseError',
  },
  {
    type: 'image_not_found',
    codes: ['image_not_found', 'image_file_not_found'],
    source: 'OpenAI API reference, ResponseError',
  },
  {
    type: 'image_download_failed',
    codes: [
      ...['image_download_failed', 'failed_to_download_image', 'file_download_error'],
      ...['invalid_image_download'],
    ],
    says: new RegExp(
      '(failed|unable|error|timeout).{0,30}(download|fetch|retriev|load)\\w*.{0,40}' +
        '(image|file|media|url|multimodal)',
      'i',
    ),
    at: isPlainRefusal,
    source: 'OpenAI API reference, ResponseError; Qwen: "Failed to download multimodal content"',
  },
  {
    type: 'invalid_image',
    codes: [
      ...['invalid_image', 'invalid_base64_image', 'invalid_image_url', 'invalid_image_mode'],
      ...['image_parse_error', 'empty_image_file', 'image_load_error'],
    ],
    says: new RegExp(
      '(invalid|corrupt(ed)?|broken) (base64 )?image|' +
        '(could|can) ?not (process|decode|parse|identify|open|load) (the |this )?image|' +
        '(illegal|not a valid) (base64|image)',
      'i',
    ),
    at: isPlainRefusal,
    source:
      'OpenAI API reference, ResponseError; Anthropic: "Could not process image"; PIL of vLLM',
  },
  {
    type: 'payload_too_large',
    codes: ['request_too_large', 'payload_too_large', 'RequestEntityTooLarge'],
    source: 'Anthropic, Errors',
  },
  {
    type: 'unprocessable',
    codes: ['unprocessable', 'unprocessable_entity', 'UnprocessableEntity'],
    source: 'OpenRouter, error_type; openai-python’s name of a 422',
  },
  {
    type: 'precondition_failed',
    codes: ['precondition_failed'],
    source: 'OpenRouter, error_type',
  },
  {
    type: 'timeout',
    codes: ['timeout_error', 'timeout', 'DEADLINE_EXCEEDED', 'vector_store_timeout', 'SLOW_UPLOAD'],
    source: 'Anthropic, Errors; Google, google.rpc.Code; OpenAI, ResponseError; Deepgram',
  },
  {
    type: 'rate_limit_exceeded',
    codes: [
      ...['rate_limit_exceeded', 'rate_limit_error', 'rate_limit_reached_error'],
      ...['RESOURCE_EXHAUSTED', 'TOO_MANY_REQUESTS', 'too_many_concurrent_requests'],
      ...['Throttling', 'Throttling.RateQuota', 'RateLimitExceeded'],
    ],
    source: 'OpenAI, Anthropic, Moonshot, Google, Deepgram, ElevenLabs, DashScope, Errors',
  },
  {
    type: 'provider_unavailable',
    codes: [
      ...[
        'api_error',
        'server_error',
        'internal_server_error',
        'UNAVAILABLE',
        'unmapped',
        'server',
      ],
      ...['provider_unavailable', 'service_unavailable'],
    ],
    at: status => isVague(status) && !isRefusal(status),
    source: 'Anthropic, OpenAI and Google, Errors; OpenRouter, error_type',
  },
  {
    type: 'invalid_request',
    codes: [
      ...['invalid_request_error', 'invalid_request', 'INVALID_ARGUMENT', 'OUT_OF_RANGE'],
      ...['BadRequestError', 'bad_request'],
    ],
    at: status => isVague(status) && isRefusal(status),
    source: 'OpenAI, Anthropic and Google, Errors; vLLM',
  },
]
