/**
 * The names and values that protocols write into requests by themselves. They are no texts of
 * callers, so filters leave them alone: a pattern such as `user` must not change a role.
 */
export const PROTOCOL_WORDS = new Set(
  `
ANY API_KEY_EXPIRED API_KEY_INVALID ARRAY AUDIO AUDIO_TYPES AUTO AccessDeniedException
BETA_BY_TOOL_TYPE BLOCKLIST BOOLEAN BY_PROVIDER CLASSIFICATION CLUSTERING CODES
CODE_RETRIEVAL_QUERY COMPLETE CONTINUATION DEADLINE_EXCEEDED DOCUMENT_FORMATS ERROR
ERROR_LIMIT ERROR_TOXIC FACT_VERIFICATION FAILED_PRECONDITION FINISH_REASONS FLEX FORMATS
FUNCTION_CALL GENERIC_INDEX GENERIC_RETRIEVAL IMAGE IMAGE_FORMATS IMAGE_PROHIBITED_CONTENT
IMAGE_RECITATION IMAGE_SAFETY INTEGER INVALID_ARGUMENT INVALID_JSON InternalServerException
LEVELS MAX_CALLS MAX_INPUTS MAX_OPEN MAX_TOKENS MODEL_ARMOR ModelErrorException
ModelNotReadyException ModelStreamErrorException ModelTimeoutException NONE NOT_FOUND NULL
NUMBER OBJECT ONE_JSON_OBJECT ONE_OBJECT ON_DEMAND ON_DEMAND_FLEX ON_DEMAND_PRIORITY
OUT_OF_RANGE PERMISSION_DENIED PLAN PNG PORT PRIORITY PROHIBITED_CONTENT PURPOSES
QUESTION_ANSWERING RECITATION REQUIRED RESOURCE_EXHAUSTED RETRIEVAL_DOCUMENT RETRIEVAL_QUERY
ResourceNotFoundException SAFETY SEMANTIC_SIMILARITY SERVICE_TIERS SINGLE_EMBEDDING SPII
STANDARD STATUS_BY_EXCEPTION STATUS_BY_TYPE STOP STOP_SEQUENCE STRING SUPPORTED_FORMATS
ServiceQuotaExceededException ServiceUnavailableException TEXT_FIELDS THINKING_CONTENT
TIMEOUT TOOL_CALL TYPE_BY_EXTENSION ThrottlingException TooManyRequestsException
UNAUTHENTICATED UNAVAILABLE USER_CANCEL UnreadableEvents VERTEX VIDEO VIDEO_FORMATS
ValidationException WHOLE_BLOCK _UNSPECIFIED __ _answer aac accepted acceptsNames action
actions adaptive additionalModelRequestFields additionalModelResponseFieldPaths
additionalModelResponseFields additionalProperties advisor-tool-2026-03-01 advisor_20260301
after_ms aiff all allBlocks allOf allow allow_fallbacks allowed allowedFunctionNames
allowed_domains allowed_tools always amount amounts annotation answer answerTool answeredIds
anthropic anthropic-beta anthropic-claude-v1 anthropic-messages anthropic-version
anthropic-vertex anthropic_beta anthropic_version any anyOf api_error application/json
application/msword application/octet-stream application/pdf application/vnd.ms-excel
apply_patch apply_patch_call approximate args arguments array assistant async at audio
audio-delta audio/aac audio/aiff audio/flac audio/mp3 audio/ogg audio/pcm audio/wav
authentication_error auto auto-beta avi aws-event-stream azure azure-openai-responses-v1
background badStart base64 bash_20241022 bedrock bedrock-converse
bedrock-openai-responses-v1 bedrock-xai-responses-v1 begin best_of betas between_tools bf16
billed billed_units billing_error bio_policy block blockIndex blocked_domains blocks body
boolean bound bounds browse_page budget budget_tokens buildBody buildRequest by bytes
cacheControl cachePoint cachePoints cacheWriteInputTokens cache_control cache_creation
cache_creation_input_tokens cache_markers cache_read cache_read_input_tokens cache_write
cache_write_1h call callId callIndex call_id calledIds calls cancelled candidate
candidateCount candidates capabilities cause char_location character chat
chat_template_kwargs choice choices chosen chunk citation citation-start citationMetadata
citationSources citation_tokens citations citationsContent citations_delta cited_text city
classification claude claude-code-20250219 clean client clientCall closed clustering code
code-execution-2025-05-22 code-execution-2025-08-25 code-execution-web-tools-2026-02-09
codeExecutionResult code_execution code_execution_20250522 code_execution_20250825 codes
cohere-chat commands compact-2026-01-12 compact_20260112 compaction compaction_delta
complete completed completion completion_tokens completion_tokens_details completions
computer computer-use-2024-10-22 computer-use-2025-01-24 computer-use-2025-11-24
computer_20241022 computer_20250124 computer_20251124 computer_call config const container
content content-delta content-start contentBlockDelta contentBlockStart contentBlockStop
content_block content_block_delta content_block_location content_block_start
content_block_stop content_filter content_filtered content_index content_policy_violation
contents context context-1m-2025-08-07 context-management-2025-06-27 context_length_exceeded
context_management conversation converse converse-stream cost cost_details country counts
createReader createToolNames created csv current custom_tool_call cyber_policy data
data_collection date date-time decisions declared default defaultSort definitions delta deny
deployment depth description detail details dev-full-thinking-2025-05-14 developer dialect
dimensions disable_parallel_tool_use disabled display doc document document.pdf documentChar
documentChunk documentIndex documentPage document_index document_title documents docx double
duration echo echoUpstreamBody effort effort-2025-11-24 efforts either email embedding
embeddingDefaults embeddingDimension embeddingPurpose embedding_types embeddings
empty_image_file enable_thinking enabled encoding_format encrypted encrypted_content end
end_block_index end_char_index end_index end_page_number end_turn endpoint endsAnswer
enforce_distillable_text entry enum env environment eos ephemeral error estimated europe
event everywhere exact exacto example examples exception exclude excluded excluded_domains
exclusiveMaximum exclusiveMinimum executableCode expires_at extra failed
failed_to_download_image fallback_message fallbacks false family fast-mode-2026-02-01 field
fields file fileData fileUri file_data file_id file_url filename files-api-2025-04-14
filters fine-grained-tool-streaming-2025-05-14 finish finish_reason first fitting flac flex
float flv forbidden format formats forwardsUnknown fp16 fp32 fp4 fp6 fp8 frame framing free
frequencyPenalty frequency_penalty function functionCall functionCallingConfig
functionDeclarations functionResponse function_call function_call_output functions
functions. gateway gemini generationConfig generation_config getCapabilities
getClientToolName gif given global google-gemini-v1 googleSearch groundingChunks
groundingMetadata guardrail_intervened hasCalls hasInput header headers hedge heic heif high
host hostname hourTokens html http_referer id ignore ignored image image/gif image/heic
image/heif image/jpeg image/jpg image/png image/webp imageConfig image_config
image_content_policy_violation image_download_failed image_file_not_found
image_file_too_large image_generation image_generation_call image_not_found image_output
image_parse_error image_too_large image_too_small image_url images in in_progress include
includeThoughts include_reasoning include_usage incomplete incomplete_details index
inference inferenceConfig inlineData inner input inputSchema inputText input_audio
input_file input_image input_json_delta input_megapixel input_schema input_second input_text
input_tokens input_tokens_details input_transformations input_type input_video inputs
instances instruction instructions insufficient_system_resource int32 int4 int64 int8
integer interleaved-thinking-2025-05-14 invalid_base64_image invalid_image
invalid_image_format invalid_image_mode invalid_image_url invalid_prompt invalid_request
invalid_request_error ipv4 ipv6 isAnthropic isBarred isDone isJson isObject isPlain
isPrefilled isSupplementary isThinking is_byok is_error it item items iterations jina-rerank
jpeg jpg json jsonSchema json_object json_schema key kind known last latency least
leastOutput length levels lists local local_shell local_shell_call location locationType
logit_bias logprob logprobs longest low m4a maker malformed_model_output malformed_tool_use
matches max maxItems maxLength maxOutputLength maxOutputTokens maxPrice maxProperties
maxReasoningEffort maxTemperature maxTokens max_completion_tokens max_output_length
max_output_tokens max_price max_tokens max_tokens_exceeded max_tool_calls max_uses maximum
mcp-client-2025-04-04 mcp-client-2025-11-20 mcp_servers mcp_toolset md media_type medium
megapixel member memory_20250818 merged message message-end message-start
message.output_text.logprobs messageStart messageStop message_delta message_start
message_stop messages meta meta-responses-v1 metadata mimeType minItems minLength
minProperties min_p minimal minimum mka mkv modalities modality mode model
model_context_window_exceeded model_length models more most mov moveNamesIntoText mp3 mp4
mpeg mpg mpga multipleOf mxfp4 mxfp8 name names namespace native never next nine none
not_found_error nothing nova nowhere null nullValue nullable num_search_queries number nvfp4
object off offered ogg omit omitUndefined omitted one oneOf only open openai openai-chat
openai-responses openai-responses-v1 opened opening openrouter operation options opus order
origin other otherwise ours output output-128k-2025-02-19 outputBound outputConfig
outputDimensionality outputIndex output_config output_dimension output_index output_text
output_tokens output_tokens_details overloaded_error ownParts p50 p75 p90 p99 page_location
parallel parallel_tool_calls parallelism param parameters parametersJsonSchema params
parseAnswer parseCount parseExact parseObject parsePurpose part partialArgs partition parts
partsPerUnit passage path pattern patternProperties pause_turn payload payload_too_large pcm
pcm16 pcm24 pdf pendingSafetyChecks pending_safety_checks per_character per_image
per_input_image per_input_megapixel per_input_second per_megapixel per_search_unit
per_second permission_error phase piece pieces pinned plain plainText plugins png pointer
position prebuiltVoiceConfig prediction preferred_max_latency preferred_min_throughput
prefill prefix prefixItems presencePenalty presence_penalty preset_id previous_response_id
price priority prompt promptFeedback prompt_cache_breakpoint prompt_cache_key
prompt_cache_options prompt_token_details prompt_tokens prompt_tokens_details properties
propertyOrdering provider providerError provider_code provider_overloaded
provider_unavailable publicPriceName purposes quantizations query queued quirks range
rate_limit_error rate_limit_exceeded rawPredict readFailure readObject readObjects readPart
readString readTexts reader reason reasoning reasoning-delta reasoning.encrypted
reasoning.encrypted_content reasoning.server_tool_call reasoning.summary reasoning.text
reasoningConfig reasoningContent reasoningText reasoning_back reasoning_details
reasoning_effort reasoning_format reasoning_text receipt receipts recipient_name redacted
redactedContent redactedReasoning redacted_thinking reduceInner reduced ref refs refusal
refusal-delta refuseContent refused region regions rejected renamed renderMessages rendered
repetition_penalty report reported request request_id request_too_large requested
requestedModel requests require_parameters required requiredCapabilities required_tool
requiresSignedCalls rerank reserved response response.cancelled response.completed
response.created response.done response.failed response.function_call_arguments.delta
response.function_call_arguments.done response.in_progress response.incomplete
response.output_item.added response.output_item.done response.output_text.annotation.added
response.output_text.delta response.output_text.done response.queued
response.reasoning_summary_text.delta response.reasoning_summary_text.done
response.reasoning_text.delta response.reasoning_text.done response.refusal.delta
response.refusal.done responseJsonSchema responseLogprobs responseMimeType
responseModalities responseSchema response_format response_format.json_schema.schema
responses rest result resultText retrieval.passage retrieval.query retrieval_document
retrieval_passage retrieval_query retrievedContext retryAfter role root routing
routingMetadata row rules runs safeguard_results safety_identifier sampling sandbox schema
scroll scrollX scrollY scroll_x search search_context_size search_document search_query
search_result_location search_results search_unit searches second seed segment
semantic_similarity separation sequence server-side-fallback-2026-06-01 server_error
server_tool_use serviceTier service_name service_tier session_id shell shell_call
siblingFields side signature signature_delta signatures signed similarity
singleEmbeddingParams skip_thought_signature_validator slot slug sort source sourceContent
sources speech speechConfig speed sse standard standard_only start start_block_index
start_char_index start_index start_page_number statistics status step steps stop
stopSequences stop_details stop_reason stop_sequence stop_sequences store stream
streamRawPredict stream_options strict strict_tools string structure structured_outputs
suffix sum summarized summary summary_index summary_text support supportsForcedTools
supportsFormatWithTools supportsHourCache supportsJsonSchema supportsMediaInResults
supportsPenalties supportsPrefill supportsResultStatus supportsSchemas supportsSearch
supportsSystemInstruction supportsThinking supportsWebSearch system systemInstruction
system_fingerprint takesIds task task-budgets-2026-03-13 taskType task_type temperature
template text text-delta text-matching text/csv text/html text/markdown text/plain
text/x-markdown text/xml textFormat text_delta text_editor_20241022 text_matching texts
thinking thinkingBudget thinkingConfig thinkingLevel thinkingOff thinking_budget
thinking_delta thought thoughtSignature three_gp throughput tier time timeout timeoutMs
timeout_error timeout_ms title to toTokenLogprob token token-efficient-tools-2025-02-19
token_budget tokens tool tool-call tool-call-delta tool-call-end tool-call-start
tool-examples-2025-10-29 tool-result tool-search-tool-2025-10-19 toolCall toolCallIds
toolChoice toolConfig toolNames toolResponse toolResult toolSpec toolType toolUse toolUseId
tool_call_id tool_call_ids tool_calls tool_choice tool_name tool_output tool_plan
tool_result tool_search tool_search_call tool_use tool_use_id tools toolu tooluse top topK
topP top_a top_k top_logprobs top_p total trace tradeoff transcript transcription true
truncationMode ttl txt type uniqueItems units unknown unsupportedConfig
unsupported_image_format unsupported_image_media_type update upstreamModel upstream_id uri
url urlContextMetadata urlMedia url_citation us usage usageMetadata usageSource use user
user_agent user_id user_location uuid value values vector vector_store_timeout vectors
verbosity vertex-2023-10-16 video video/3gpp video/avi video/mov video/mp4 video/mpeg
video/mpg video/quicktime video/webm video/wmv video/x-flv video/x-matroska video/x-ms-wmv
video_url view_image view_x_video voice voiceConfig voiceName voyage-rerank wanted wav web
web-fetch-2025-09-10 web-search-2025-03-05 webSearchQueries web_fetch_20250910
web_fetch_20260209 web_search web_search_20250305 web_search_20260209 web_search_call
web_search_options web_search_result_location web_search_with_snippets webm webp within
without-reasoning wmv words working_directory wrappedCall written x-aac x-amzn-errortype
x-vertex-ai-llm-shared-request-type x_keyword_search x_semantic_search x_thread_fetch
x_user_search xai xai-responses-v1 xhigh xls xlsx xml zdr
1024x1024 1024x1536 1536x1024 16:9 19.5:9 1:1 1:2 1:4 1:8 1K 1k 2.35:1 20:9 21:9 2:1 2:3 2K 2k 3:2
3:4 4:1 4:3 4:5 4K 4k 512 5:2 5:4 8:1 9:16 9:19.5 9:20 9:21 TEXT aspectRatio aspect_ratio b64_json
compressionQuality height image-to-image imageSize image[]
image_prompt image_size input_references num_images opaque outputOptions
includeRaiReason
output_compression output_format partial_images quality resolution sampleCount sampleImageSize
size strength svg transparent width
`
    .trim()
    .split(/\s+/),
)
