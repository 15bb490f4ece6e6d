/** What the description says about an operation, beside what its route declares. */
export interface OperationNote {
  description: string
  /** A body that works as it stands, wherever the operation needs nothing that was made before. */
  body?: object
  /** Examples of the parameters in its path and query. */
  examples?: Record<string, string | number>
}

/** How a client of MCP begins. */
const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'example', version: '1.0.0' },
  },
}
const MCP_SERVER = { server: 'files' }

const HELLO = [{ role: 'user', content: 'Hello there' }]
const HASH = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const ID = '4b6f3f0e-6d0c-4c64-9c3a-0a6f1f3f2b11'
const OTHER_ID = '0d6d4a0e-2a53-4d6c-8f1e-6a3b8c1d2e4f'
/** `out/report.csv`. */
const CONTAINER_FILE = {
  container_id: 'sess_report',
  file_id: 'cfile_b3V0L3JlcG9ydC5jc3Y',
}
const BATCH_ID = 'batch_019aa5d20c4e7f0a8b1c2d3e4f5a6b7c'
const JOB_ID = 'job-0123456789abcdef0123456789abcdef'
const FILE_ID = 'or_file_019aa5d20c4e7f0a8b1c2d3e4f5a6b7c'
const USER_ID = 'user_2dHFtVWx2n56w6HkM0000000000'
const KEYS = { key_hashes: [HASH] }
const MEMBERS = { member_user_ids: [USER_ID] }
const MODEL = { author: 'sandbox', slug: 'echo' }
const id = { id: ID }
const RESPONSE = { response_id: 'gen-1795730984-0123456789abcdef0123' }
const BATCH = { id: 'batch_019aa5d20c4e7f0a8b1c2d3e4f5a6b7c' }
const CONVERSED = [{ role: 'user', content: [{ text: 'Hello there' }] }]
const GEMINI = { model: 'sandbox/echo' }
const CONTENTS = [{ role: 'user', parts: [{ text: 'Hello there' }] }]
const DEPLOYMENT = { deployment: 'sandbox/echo', 'api-version': '2024-10-21' }
const DEPLOYED =
  ' Azure’s clients name the model in the path, as a deployment, and send their key as `api-key`.'

const SCIM = 'urn:ietf:params:scim:schemas:core:2.0:'
const MESSAGES = 'urn:ietf:params:scim:api:messages:2.0:'
const USER = { schemas: [`${SCIM}User`], userName: 'ada@acme.example', active: true }
const GROUP = { schemas: [`${SCIM}Group`], displayName: 'Engineering', members: [] }
const SEARCH = { schemas: [`${MESSAGES}SearchRequest`], filter: 'displayName pr', count: 10 }
const buildPatch = (path: string, value: unknown) => ({
  schemas: [`${MESSAGES}PatchOp`],
  Operations: [{ op: 'replace', path, value }],
})

/** The notes of all operations, by their ids. */
export const NOTES: Record<string, OperationNote> = {
  sendChatCompletionRequest: {
    description:
      'Answers a conversation in the format of OpenAI’s chat completions, by whichever provider ' +
      'serves the model. With `stream`, the answer arrives as server-sent events. `models` names ' +
      'fallbacks, `provider` says which providers may serve the call.',
    body: { model: 'sandbox/echo', messages: HELLO },
  },
  sendCompletionRequest: {
    description: 'Continues a text: the older form of chat completions, for one prompt.',
    body: { model: 'sandbox/echo', prompt: 'Hello there' },
  },
  createMessages: {
    description:
      'Answers a conversation in the format of Anthropic’s Messages API, by whichever provider ' +
      'serves the model. Text, pictures, files, tools and thinking are translated.',
    body: { model: 'sandbox/echo', max_tokens: 100, messages: HELLO },
  },
  createResponses: {
    description:
      'Answers in the format of OpenAI’s Responses API, by whichever provider serves the model. ' +
      'Nothing is stored: send the whole conversation in `input`, with the items of the answers ' +
      'as they came.',
    body: { model: 'sandbox/echo', input: 'Hello there' },
  },
  createEmbeddings: {
    description: 'Computes a vector for each text, in the format of OpenAI’s embeddings.',
    body: { model: 'sandbox/embed', input: 'Hello there' },
  },
  createRerank: {
    description:
      'Sorts documents by their relevance to a query. A model that only computes vectors sorts ' +
      'by their cosines, and `method` in the answer says so.',
    body: {
      model: 'sandbox/embed',
      query: 'What colour is the sky?',
      documents: ['Grass is green', 'The sky is blue'],
    },
  },
  createAudioTranscriptions: {
    description:
      'Transcribes a recording: in base64 in `input_audio`, or as the `file` of a ' +
      'form of at most 100 MB. `verbose_json` adds the times of segments, and of words if ' +
      '`timestamp_granularities` names them; `text`, `srt` and `vtt` are plain texts.',
    body: {
      model: 'sandbox/transcribe',
      input_audio: {
        data: 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAwF0AAIC7AAACABAAZGF0YQAAAAA=',
        format: 'wav',
      },
    },
  },
  createAudioSpeech: {
    description:
      'Reads a text aloud. The answer is the sound itself, as it is made: 16-bit samples unless ' +
      'another `response_format` is named. Its generation’s id is in `X-Generation-Id`.',
    body: { model: 'sandbox/speech', input: 'Hello there', response_format: 'wav' },
  },
  createImages: {
    description:
      'Draws pictures from a prompt, or after other pictures. Each comes in base64, with the type ' +
      'that its bytes have. With `stream`, providers that draw step by step send previews as ' +
      'events; the others answer with one JSON value all the same.',
    body: { model: 'sandbox/image', prompt: 'A red bicycle' },
  },
  createVideos: {
    description:
      'Begins to make a video from a prompt or pictures. The answer is a job: ask about it at ' +
      '`polling_url` until it is `completed`. It is charged then, and only then.',
    body: { model: 'sandbox/video', prompt: 'A red bicycle in the rain', duration: 4 },
  },
  getVideos: {
    description: 'Tells how a job is coming along, and where its videos are once it is done.',
    examples: { jobId: JOB_ID },
  },
  listVideosContent: {
    description:
      'Downloads a video of a job that is done, as its provider sends it. `index` counts from 0. ' +
      'Providers keep videos for hours or days; after that it is gone (410).',
    examples: { jobId: JOB_ID, index: 0 },
  },
  listVideosModels: {
    description: 'Lists the models that make videos, with what each of them can be asked for.',
  },
  getModels: {
    description: 'Lists models with their prices, limits and abilities. Every filter narrows it.',
    examples: { q: 'echo', limit: 10 },
  },
  listModelsCount: { description: 'Counts the models that the list of models has.' },
  listImageModels: {
    description: 'Lists the models that draw, with the parameters that each of them follows.',
  },
  listImageModelEndpoints: {
    examples: { author: 'sandbox', slug: 'image' },
    description:
      'Lists who serves a model that draws, with parameters and prices. Parameters that only one ' +
      'provider has go into `provider.options` under its slug.',
  },
  listEmbeddingsModels: { description: 'Lists the models that compute vectors.' },
  listEndpointsZdr: {
    description:
      'Lists the endpoints whose providers keep nothing of a call (zero data retention).',
  },
  countMessageTokens: {
    description:
      'Counts the tokens of a conversation in the format of Anthropic’s Messages API, without ' +
      'making the call. It costs nothing and counts as one call of the key’s rate limit.',
    body: { model: 'sandbox/echo', messages: HELLO },
  },
  countResponseTokens: {
    description:
      'Counts the tokens of a conversation in the format of OpenAI’s Responses API, without making ' +
      'the call. It costs nothing and counts as one call of the key’s rate limit.',
    body: { model: 'sandbox/echo', input: 'Hello' },
  },
  compactResponse: {
    description:
      'Replaces a conversation by a shorter one: what its user said, and an item that stands for all ' +
      'else. OpenAI’s models make that item themselves; any other model is asked for a summary.',
    body: { model: 'sandbox/echo', input: 'Hello' },
  },
  getResponse: {
    description:
      'Shows a stored response as it stands: one in the background is `queued` or `in_progress` until ' +
      'it has ended. With `stream=true` the events of one that was streamed in the background are ' +
      'sent again, after `starting_after`, and those to come; 400 where they are no longer kept. ' +
      'Responses are stored where the operator has set `responses.store`.',
    examples: RESPONSE,
  },
  listResponseInputItems: {
    description: 'Lists what was asked for a stored response, without what was said before it.',
    examples: RESPONSE,
  },
  cancelResponse: {
    description: 'Ends a response that is made in the background. What it has used is charged.',
    examples: RESPONSE,
  },
  deleteResponse: {
    description: 'Deletes a stored response, for good. Others no longer go on from it.',
    examples: RESPONSE,
  },
  createModeration: {
    description:
      'Judges texts by the provider that `plugins.moderation` names, else by the content filters of ' +
      'the key: then the categories are its filters.',
    body: { input: 'Hello there' },
  },
  createMessageBatch: {
    description:
      'Makes a batch of messages as Anthropic’s clients do, with its requests in the body. Each runs ' +
      'later as a call of this key, and is charged as one.',
    body: {
      requests: [
        {
          custom_id: 'first',
          params: { model: 'sandbox/echo', max_tokens: 100, messages: HELLO },
        },
      ],
    },
  },
  listMessageBatches: { description: 'Lists a workspace’s batches of messages, newest first.' },
  getMessageBatch: { description: 'Shows how far a batch of messages has come.', examples: BATCH },
  getMessageBatchResults: {
    description: 'Reads the results of a batch that has ended, one in each line.',
    examples: BATCH,
  },
  cancelMessageBatch: {
    description: 'Cancels a batch: no request begins any more, and what is done is kept.',
    examples: BATCH,
  },
  deleteMessageBatch: {
    description: 'Deletes a batch that has ended. The files of its results stay.',
    examples: BATCH,
  },
  askMcp: {
    description:
      'Answers one message of JSON-RPC, as one MCP server in front of all of the config. `initialize` ' +
      'begins a session, which the answer names in `Mcp-Session-Id`.',
    body: INITIALIZE,
  },
  listenToMcp: { description: 'Tells a session of changes of what it may use, as they happen.' },
  leaveMcp: { description: 'Ends a session.' },
  askMcpServer: {
    description: 'Answers as `/mcp` does, for one server, under its own names.',
    examples: MCP_SERVER,
    body: INITIALIZE,
  },
  listenToMcpServer: {
    description: 'Tells a session of one server of changes of what it may use.',
    examples: MCP_SERVER,
  },
  leaveMcpServer: { description: 'Ends a session of one server.', examples: MCP_SERVER },
  converse: {
    description:
      'Answers a conversation as Bedrock’s Converse, over every provider. The key is a bearer token; ' +
      'signatures of AWS are refused.',
    examples: GEMINI,
    body: { messages: CONVERSED },
  },
  converseStream: {
    description: 'Answers as `converse`, as it comes, in frames of an AWS event stream.',
    examples: GEMINI,
    body: { messages: CONVERSED },
  },
  invokeModel: {
    description: 'Answers a body of Anthropic’s models, over every provider.',
    examples: GEMINI,
    body: { max_tokens: 100, messages: HELLO },
  },
  invokeModelWithResponseStream: {
    description: 'Answers as `invoke`, each event of the message in a frame.',
    examples: GEMINI,
    body: { max_tokens: 100, messages: HELLO },
  },
  generateContent: {
    description:
      'Answers a conversation of contents, over every provider. Google’s clients write the action ' +
      'behind a colon (`models/acme/small:generateContent`) and send their key as `x-goog-api-key`.',
    examples: GEMINI,
    body: { contents: CONTENTS },
  },
  streamGenerateContent: {
    description:
      'Answers as `generateContent`, as it comes: with `alt=sse` as events, else as one array.',
    examples: GEMINI,
    body: { contents: CONTENTS },
  },
  countTokens: {
    description: 'Counts the tokens of contents, without asking a provider.',
    examples: GEMINI,
    body: { contents: CONTENTS },
  },
  embedContent: {
    description: 'Turns one content into a vector.',
    examples: { model: 'sandbox/embed' },
    body: { content: CONTENTS[0] },
  },
  batchEmbedContents: {
    description: 'Turns several contents into vectors, all with the same settings.',
    examples: { model: 'sandbox/embed' },
    body: { requests: [{ content: CONTENTS[0] }] },
  },
  listGeminiModels: {
    description: 'Lists the models that the key can call, in the form of the Gemini API.',
  },
  getGeminiModel: {
    description: 'Shows a model in the form of the Gemini API.',
    examples: GEMINI,
  },
  createDeploymentChatCompletion: {
    description: `Answers as \`/chat/completions\`.${DEPLOYED}`,
    examples: DEPLOYMENT,
    body: { messages: HELLO },
  },
  createDeploymentCompletion: {
    description: `Answers as \`/completions\`.${DEPLOYED}`,
    examples: DEPLOYMENT,
    body: { prompt: 'Hello there' },
  },
  createDeploymentEmbeddings: {
    description: `Answers as \`/embeddings\`.${DEPLOYED}`,
    examples: { ...DEPLOYMENT, deployment: 'sandbox/embed' },
    body: { input: 'Hello there' },
  },
  createDeploymentImages: {
    description: `Answers as \`/images\`.${DEPLOYED}`,
    examples: { ...DEPLOYMENT, deployment: 'sandbox/image' },
    body: { prompt: 'A red bicycle' },
  },
  createDeploymentImageEdits: {
    description: `Draws after other pictures, as \`/images\` does.${DEPLOYED}`,
    examples: { ...DEPLOYMENT, deployment: 'sandbox/image' },
    body: { prompt: 'A red bicycle' },
  },
  createDeploymentSpeech: {
    description: `Answers as \`/audio/speech\`.${DEPLOYED}`,
    examples: { ...DEPLOYMENT, deployment: 'sandbox/speech' },
    body: { input: 'Hello there', response_format: 'wav' },
  },
  createDeploymentTranscription: {
    description: `Answers as \`/audio/transcriptions\`.${DEPLOYED}`,
    examples: { ...DEPLOYMENT, deployment: 'sandbox/transcribe' },
    body: {
      input_audio: {
        data: 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAwF0AAIC7AAACABAAZGF0YQAAAAA=',
        format: 'wav',
      },
    },
  },
  retrieveModel: {
    description: 'Shows one model as OpenAI’s clients expect it.',
    examples: MODEL,
  },
  retrieveModelById: {
    description:
      'Shows one model, named by its slug with the slash encoded, or by a plain name that means ' +
      'one model.',
    examples: { author: 'echo' },
  },
  getModel: { description: 'Shows one model. Variants and aliases work.', examples: MODEL },
  listEndpoints: {
    description: 'Lists who serves a model, at which prices and limits, and how each is doing.',
    examples: MODEL,
  },
  listModelsUser: {
    description:
      'Lists the models that this key can call, by its workspace’s rules and guardrails.',
  },
  listProviders: { description: 'Lists the known providers, with their policies where known.' },
  getGeneration: {
    description:
      'Shows the record of a finished call: its provider, tokens, cost and times. Its id is in ' +
      'the answer and in the header `X-Generation-Id`.',
    examples: { id: 'gen-1784000000-a1b2c3d4e5f6a7b8c9d0' },
  },
  createAuthKeysCode: {
    description:
      'Makes a code that an app exchanges for a key of the same user and workspace, within ten ' +
      'minutes and once. A key with a limit, an expiry or a guardrail cannot make codes.',
    body: {
      callback_url: 'https://app.example/callback',
      code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
      code_challenge_method: 'S256',
      key_label: 'app.example',
      limit: 5,
    },
  },
  exchangeAuthCodeForAPIKey: {
    description:
      'Exchanges a code for a key. Needs the verifier of the code’s challenge, if it has one, and ' +
      'no key. A code is used up by a failure, too.',
    body: {
      code: 'gw-code-v1-0000',
      code_verifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
      code_challenge_method: 'S256',
    },
  },
  listOauthJwks: {
    description:
      'Lists the keys that access tokens are signed with (RFC 7517): those of yesterday, today and ' +
      'tomorrow, in UTC.',
  },
  createOauthToken: {
    description:
      'Exchanges the token of a workload, of an issuer in the config, for one that calls accept ' +
      'like an inference key (RFC 8693). It lives at most fifteen minutes.',
    body: {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: 'eyJhbGciOiJSUzI1NiJ9.e30.c2ln',
      subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
      federation_policy_id: 'github',
    },
  },
  listGenerationContent: {
    description:
      'Shows what was asked and answered in a call, as its client saw it, and why it failed. It is ' +
      'kept only where the workspace’s `is_observability_io_logging_enabled` is true, and for a ' +
      'while. Inference keys read their own calls, management keys those of their workspace.',
    examples: { id: 'gen-1784000000-a1b2c3d4e5f6a7b8c9d0' },
  },
  submitGenerationFeedback: {
    description:
      'Notes what was wrong with an answer. It replaces what the same key has said in the category.',
    body: {
      generation_id: 'gen-1784000000-a1b2c3d4e5f6a7b8c9d0',
      category: 'incorrect_response',
      comment: 'Paris, not Rome',
    },
  },
  getCurrentKey: { description: 'Shows the key of this request: its limit and what it has spent.' },
  list: { description: 'Lists the API keys of a workspace, never their secrets.' },
  createKeys: {
    description: 'Creates an API key. The answer has its plaintext, which is stored nowhere.',
    body: { name: 'My application', limit: 10, limit_reset: 'monthly' },
  },
  getKey: { description: 'Shows an API key by its hash.', examples: { hash: HASH } },
  updateKeys: {
    description: 'Changes an API key. Disabling it refuses its next call.',
    body: { disabled: true },
    examples: { hash: HASH },
  },
  rotateKey: {
    description:
      'Gives an API key a new secret, which the answer has and nothing stores. The secret so far ' +
      'stays valid for the overlap.',
    body: { overlap_seconds: 3600 },
    examples: { hash: HASH },
  },
  deleteKeys: { description: 'Deletes an API key for good.', examples: { hash: HASH } },
  listPresets: { description: 'Lists the presets of the key’s workspace, the last changed first.' },
  getPreset: {
    description: 'Shows a preset with the version that calls use.',
    examples: { slug: 'brief' },
  },
  listPresetVersions: {
    description: 'Lists the versions of a preset, the oldest first.',
    examples: { slug: 'brief' },
  },
  getPresetVersion: {
    description: 'Shows one version of a preset.',
    examples: { slug: 'brief', version: 1 },
  },
  createPresetsChatCompletions: {
    description:
      'Makes a preset, or its next version, from a chat request: its parameters and its system ' +
      'message. The conversation is not kept.',
    body: {
      model: 'sandbox/echo',
      temperature: 0.2,
      messages: [{ role: 'system', content: 'Be brief' }],
    },
    examples: { slug: 'brief' },
  },
  createPresetsMessages: {
    description: 'Makes a preset, or its next version, from a request in Anthropic’s format.',
    body: { model: 'sandbox/echo', max_tokens: 100, system: 'Be brief', messages: HELLO },
    examples: { slug: 'brief' },
  },
  createPresetsResponses: {
    description: 'Makes a preset, or its next version, from a request of OpenAI’s Responses API.',
    body: { model: 'sandbox/echo', instructions: 'Be brief', input: 'Hello there' },
    examples: { slug: 'brief' },
  },
  listFiles: {
    description:
      'Lists the files of a workspace, newest first. Page by `cursor`; OpenAI’s clients by `after` ' +
      'and `order`, Anthropic’s by `after_id` and `before_id`. Requests of their clients are ' +
      'answered in their shapes.',
    examples: { limit: 100 },
  },
  uploadFile: {
    description:
      'Stores a file of at most 104,857,600 bytes. Its type is detected from its contents: PDF, ' +
      'PNG, JPEG, GIF, WebP, DOCX, XLSX, PPTX, MP3, WAV, FLAC, OGG, or text in UTF-8.',
  },
  getFileMetadata: { description: 'Shows the record of a file.', examples: { file_id: FILE_ID } },
  deleteFile: {
    description: 'Deletes a file, for good, and frees its part of the quota.',
    examples: { file_id: FILE_ID },
  },
  downloadFileContent: {
    description: 'Downloads a file that the gateway has written. Uploads are not handed out again.',
    examples: { file_id: FILE_ID },
  },
  createBatch: {
    description:
      'Makes a batch: its lines are made as calls of this key within a day, when few clients wait. ' +
      'A file is checked line by line first. Results are files.',
    body: {
      endpoint: '/v1/chat/completions',
      model: 'sandbox/echo',
      requests: [
        { custom_id: 'first', body: { messages: [{ role: 'user', content: 'Say hello' }] } },
      ],
    },
  },
  listBatches: {
    description: 'Lists a workspace’s batches, newest first. `status` may stand more than once.',
    examples: { limit: 20, status: 'in_progress' },
  },
  getBatch: {
    description: 'Shows how far a batch is, and the files of its results once it has ended.',
    examples: { id: BATCH_ID },
  },
  cancelBatch: {
    description: 'Cancels a batch: no line begins any more, and what was done is written.',
    examples: { id: BATCH_ID },
  },
  deleteBatch: {
    description: 'Deletes a batch that has ended. The files of its results stay.',
    examples: { id: BATCH_ID },
  },
  listContainerFiles: {
    description:
      'Lists the files of a container’s home as they were after its last command, by their paths.',
    examples: { container_id: 'sess_report', limit: 100 },
  },
  getContainerFile: {
    description: 'Shows the record of a container’s file.',
    examples: CONTAINER_FILE,
  },
  downloadContainerFileContent: {
    description: 'Downloads a container’s file.',
    examples: CONTAINER_FILE,
  },
  promoteContainerFile: {
    description:
      'Copies a container’s file into the workspace’s files, under its path. Asked again, it ' +
      'answers with the same copy as long as neither has changed.',
    examples: CONTAINER_FILE,
  },
  listBYOKKeys: { description: 'Lists a workspace’s own provider keys, never their secrets.' },
  createBYOKKey: {
    description: 'Adds a provider key of a workspace. It is sealed, and never shown again.',
    body: { provider: 'openai', key: 'sk-...', name: 'Our OpenAI account' },
  },
  getBYOKKey: { description: 'Shows one of a workspace’s own provider keys.', examples: id },
  updateBYOKKey: {
    description: 'Changes a provider key of a workspace. A new `key` replaces the old one.',
    body: { name: 'Our OpenAI account', disabled: true },
    examples: id,
  },
  deleteBYOKKey: { description: 'Deletes a provider key of a workspace.', examples: id },
  listAlerts: { description: 'Lists the alerts of a workspace. Secrets are masked.' },
  createAlert: {
    description:
      'Adds an alert: who is told when a cause has reached a threshold, once for each threshold ' +
      'and window. Webhooks are signed as Standard Webhooks say.',
    body: {
      name: 'Near',
      cause: 'limit_near',
      thresholds: [0.8, 1],
      to: {
        type: 'webhook',
        url: 'https://hooks.example.com/alerts',
        secret: 'sixteen-characters-or-more',
      },
    },
  },
  getAlert: { description: 'Shows an alert. Secrets are masked.', examples: id },
  updateAlert: {
    description:
      'Changes an alert. `to` replaces the receiver before; a secret that equals its mask stays.',
    body: { thresholds: [0.5, 0.9, 1] },
    examples: id,
  },
  deleteAlert: {
    description: 'Deletes an alert, with what it was about to tell.',
    examples: id,
  },
  testAlert: {
    description: 'Sends the receiver of an alert a sample, and tells what came back.',
    examples: id,
  },
  listObservabilityDestinations: {
    description: 'Lists where a workspace’s calls are told. Secrets are masked.',
  },
  createObservabilityDestination: {
    description:
      'Adds a destination that is told of a workspace’s calls. Its `config` depends on its type ' +
      'and is sealed. The workspace must have `is_observability_broadcast_enabled`.',
    body: {
      type: 'webhook',
      name: 'Traces',
      config: { url: 'https://hooks.example.com/traces' },
    },
  },
  getObservabilityDestination: {
    description: 'Shows a destination. Secrets are masked.',
    examples: id,
  },
  updateObservabilityDestination: {
    description:
      'Changes a destination. `config` is merged field by field; a secret that equals its mask ' +
      'stays as it is.',
    body: { privacy_mode: true, sampling_rate: 0.1 },
    examples: id,
  },
  deleteObservabilityDestination: {
    description: 'Deletes a destination, with what waits for it.',
    examples: id,
  },
  listWorkspaces: { description: 'Lists the workspaces that this key manages.' },
  createWorkspace: {
    description: 'Creates a workspace: keys, presets, budgets and rules of a team.',
    body: { name: 'Team', slug: 'team' },
  },
  getWorkspace: { description: 'Shows a workspace.', examples: id },
  updateWorkspace: {
    description: 'Changes a workspace.',
    body: { name: 'Team', description: 'The team’s keys' },
    examples: id,
  },
  deleteWorkspace: {
    description: 'Deletes a workspace without active keys, with its budgets and guardrails.',
    examples: id,
  },
  listWorkspaceMembers: { description: 'Lists the members of a workspace.', examples: id },
  bulkAddWorkspaceMembers: {
    description: 'Adds members of the organization to a workspace.',
    body: { user_ids: [USER_ID] },
    examples: id,
  },
  bulkRemoveWorkspaceMembers: {
    description: 'Removes members who have no active keys from a workspace.',
    body: { user_ids: [USER_ID] },
    examples: id,
  },
  listWorkspaceBudgets: { description: 'Lists the budgets of a workspace.', examples: id },
  getWorkspaceBudget: {
    description: 'Shows the budget of a workspace for an interval, and what is spent of it.',
    examples: { ...id, interval: 'monthly' },
  },
  upsertWorkspaceBudget: {
    description: 'Sets what all keys of a workspace may spend in an interval, in USD.',
    body: { limit_usd: 100 },
    examples: { ...id, interval: 'monthly' },
  },
  deleteWorkspaceBudget: {
    description: 'Removes the budget of a workspace for an interval.',
    examples: { ...id, interval: 'monthly' },
  },
  listOrganizationMembers: { description: 'Lists the members of the organization.' },
  listGuardrails: { description: 'Lists guardrails: rules for what keys and members may call.' },
  createGuardrail: {
    description: 'Creates a guardrail. It applies to the keys and members that it is assigned to.',
    body: { name: 'European, without retention', allowed_data_regions: ['europe'] },
  },
  getGuardrail: { description: 'Shows a guardrail.', examples: id },
  updateGuardrail: {
    description: 'Changes a guardrail. A list replaces the whole list.',
    body: { description: 'For the support team' },
    examples: id,
  },
  deleteGuardrail: { description: 'Deletes a guardrail, and its assignments.', examples: id },
  listKeyAssignments: { description: 'Lists which keys have which guardrail.' },
  listGuardrailKeyAssignments: { description: 'Lists the keys of a guardrail.', examples: id },
  bulkAssignKeysToGuardrail: {
    description: 'Assigns a guardrail to keys. A key has one: it replaces another.',
    body: KEYS,
    examples: id,
  },
  bulkUnassignKeysFromGuardrail: {
    description: 'Takes a guardrail from keys.',
    body: KEYS,
    examples: id,
  },
  listMemberAssignments: { description: 'Lists which members have which guardrail.' },
  listGuardrailMemberAssignments: {
    description: 'Lists the members of a guardrail.',
    examples: id,
  },
  bulkAssignMembersToGuardrail: {
    description: 'Assigns a guardrail to members, for all their keys.',
    body: MEMBERS,
    examples: id,
  },
  bulkUnassignMembersFromGuardrail: {
    description: 'Takes a guardrail from members.',
    body: MEMBERS,
    examples: id,
  },
  getCredits: { description: 'Shows what was paid in, and what is spent of it, in USD.' },
  createCoinbaseCharge: { description: 'Is closed for good: credits are added at the terminal.' },
  getUserActivity: {
    description:
      'Shows what was used by day and endpoint in the last 30 days that have ended, in UTC.',
  },
  getAnalyticsMeta: {
    description: 'Lists the metrics, dimensions, operators and granularities of queries.',
  },
  queryAnalytics: {
    description:
      'Sums and measures calls by up to two dimensions and by time. Money is exact to the ' +
      'nano-dollar. A query that takes too long is a 408.',
    body: { metrics: ['request_count', 'total_usage'], dimensions: ['model'], granularity: 'day' },
  },
  getSessionCost: {
    description:
      'Shows the median cost of sessions in the last whole week, by app, model and number of ' +
      'turns. Few sessions are not shown, and no app is pooled with another.',
  },
  getAppRankings: { description: 'Ranks the apps that call by their tokens, or by their growth.' },
  getRankingsDaily: {
    description: 'Shows the tokens of the 50 most used models of each day, week or month.',
  },
  getTaskClassifications: {
    description: 'Is empty: this gateway does not classify what its callers write.',
  },
  getBenchmarks: { description: 'Is empty: this gateway runs no benchmarks and copies none.' },
  streamActivity: {
    description:
      'Streams what happens: calls as they are opened, planned, tried, answered and finished, ' +
      'circuits, limits, changes of the config, alarms, and once a second the state of the server. ' +
      'Each event is one JSON object with `type` and `at`. Entries that the reader does not take in ' +
      'time are dropped, and an entry `lost` counts them. Keys of a workspace see its calls alone.',
    examples: { limit: 1 },
  },
  listAudit: {
    description: 'Lists who changed what and when. The trail can only be added to.',
    examples: { limit: 20 },
  },
  listScimGroupMappings: { description: 'Lists which groups have a role in which workspaces.' },
  createScimGroupMapping: {
    description: 'Makes the members of a group members of a workspace.',
    body: { scim_group_id: ID, workspace_id: OTHER_ID, role: 'member' },
  },
  getScimGroupMapping: { description: 'Shows a mapping.', examples: id },
  updateScimGroupMapping: {
    description: 'Changes the role that a mapping gives.',
    body: { role: 'admin' },
    examples: id,
  },
  deleteScimGroupMapping: {
    description: 'Deletes a mapping. Its members stay or leave, as `keep_members` says.',
    examples: { ...id, keep_members: 'true' },
  },
  listScimGroups: { description: 'Lists the groups that the identity provider has sent.' },
  createScimSyncJob: { description: 'Starts a job in which the provider sends everything anew.' },
  getScimSyncJob: { description: 'Shows how far a job is.', examples: id },
  listScimUserResources: {
    description: 'Lists users (RFC 7644, 3.4.2).',
    examples: { filter: 'userName eq "ada@acme.example"', count: 10 },
  },
  searchScimUserResources: {
    description: 'Lists users by a query in the body (RFC 7644, 3.4.3).',
    body: { ...SEARCH, filter: 'userName pr' },
  },
  createScimUserResource: { description: 'Creates a user (RFC 7644, 3.3).', body: USER },
  getScimUserResource: { description: 'Shows a user.', examples: id },
  replaceScimUserResource: {
    description: 'Replaces a user (RFC 7644, 3.5.1).',
    body: USER,
    examples: id,
  },
  patchScimUserResource: {
    description: 'Changes attributes of a user (RFC 7644, 3.5.2). An inactive one can do nothing.',
    body: buildPatch('active', false),
    examples: id,
  },
  deleteScimUserResource: { description: 'Deletes a user.', examples: id },
  listScimGroupResources: {
    description: 'Lists groups (RFC 7644, 3.4.2).',
    examples: { filter: 'displayName eq "Engineering"', count: 10 },
  },
  searchScimGroupResources: {
    description: 'Lists groups by a query in the body (RFC 7644, 3.4.3).',
    body: SEARCH,
  },
  createScimGroupResource: { description: 'Creates a group (RFC 7644, 3.3).', body: GROUP },
  getScimGroupResource: { description: 'Shows a group with its members.', examples: id },
  replaceScimGroupResource: {
    description: 'Replaces a group and its members (RFC 7644, 3.5.1).',
    body: GROUP,
    examples: id,
  },
  patchScimGroupResource: {
    description: 'Changes a group, or adds and removes members (RFC 7644, 3.5.2).',
    body: buildPatch('displayName', 'Research'),
    examples: id,
  },
  deleteScimGroupResource: { description: 'Deletes a group.', examples: id },
  getScimServiceProviderConfig: { description: 'Shows which parts of SCIM are spoken.' },
  listScimResourceTypes: { description: 'Lists the kinds of resources.' },
  getScimResourceType: {
    description: 'Shows a kind of resource.',
    examples: { name: 'User' },
  },
  listScimSchemas: { description: 'Lists the schemas of resources.' },
  getScimSchema: {
    description: 'Shows the schema of a resource.',
    examples: { id: `${SCIM}User` },
  },
  searchScim: {
    description: 'Lists users and groups by a query in the body (RFC 7644, 3.4.3).',
    body: { ...SEARCH, filter: 'id pr' },
  },
  home: { description: 'Shows what this is, and how to call it, to a person with a browser.' },
  creditsPage: { description: 'Shows how credits are added, to a person with a browser.' },
  favicon: { description: 'Gets the picture that browsers show beside the address.' },
  health: {
    description: 'Answers while the process runs. `config` is `rejected` where its file is wrong.',
  },
  healthz: { description: 'Answers like `/health`, under the name that Kubernetes uses.' },
  ready: {
    description:
      'Answers 200 while calls are accepted, and 503 before it stops. Under overload it stays 200, ' +
      'and `overloaded` says what is used up. While the store takes no records and they are kept ' +
      'for it, `degraded` is `store`; while Valkey is done without, `valkey`, and `valkey` says why.',
  },
  metrics: { description: 'Gets counters and timings in the format of Prometheus.' },
  openapiJson: { description: 'Gets this description as JSON.' },
  openapiYaml: { description: 'Gets this description as YAML.' },
  docs: { description: 'Shows this description in a browser, where operations can be tried.' },
  docsPart: { description: 'Gets a part of that page.', examples: { part: 'page.js' } },
}

/** The headings of the description: what most people look for comes first. */
export const TAGS: { name: string; description: string }[] = [
  { name: 'Chat', description: 'Conversations in OpenAI’s format' },
  { name: 'Messages', description: 'Conversations in Anthropic’s format' },
  { name: 'Responses', description: 'Conversations in the format of OpenAI’s Responses API' },
  { name: 'Embeddings', description: 'Vectors of texts' },
  { name: 'Images', description: 'Pictures that models draw' },
  { name: 'Videos', description: 'Jobs that make videos' },
  { name: 'TTS', description: 'Texts that models read aloud' },
  { name: 'STT', description: 'Recordings that models write down' },
  { name: 'Rerank', description: 'Documents by their relevance' },
  { name: 'Moderations', description: 'Texts that are judged' },
  { name: 'Files', description: 'Files of a workspace' },
  { name: 'Batches', description: 'Files of requests that are made later' },
  { name: 'Containers', description: 'Files that commands of models have made' },
  { name: 'Models', description: 'What can be called, and by whom it is served' },
  { name: 'Providers', description: 'Who serves models' },
  { name: 'Gemini', description: 'Calls in the form of Google’s clients' },
  { name: 'Bedrock', description: 'Calls in the form of Bedrock’s clients' },
  { name: 'Azure', description: 'Calls in the form of Azure’s clients' },
  { name: 'MCP', description: 'The MCP servers of the config, for hosts' },
  { name: 'Generations', description: 'Records of finished calls' },
  { name: 'Analytics', description: 'What was used, by whom and on what' },
  { name: 'Datasets', description: 'Medians and rankings that name no one, under CC BY 4.0' },
  { name: 'Classifications', description: 'Which tasks calls are about' },
  { name: 'Benchmarks', description: 'Scores of models' },
  { name: 'API Keys', description: 'Who may call, and how much they may spend' },
  { name: 'OAuth', description: 'Keys that apps get with the consent of a member' },
  { name: 'Credits', description: 'What was paid in' },
  { name: 'Presets', description: 'Named configurations that are laid under calls' },
  { name: 'BYOK', description: 'Workspaces’ own provider keys' },
  { name: 'Workspaces', description: 'Teams, their members and budgets' },
  { name: 'Organization', description: 'All members' },
  { name: 'Guardrails', description: 'Rules for what may be called and sent' },
  { name: 'Audit', description: 'Who changed what' },
  { name: 'Observability', description: 'Where calls are told' },
  { name: 'Alerts', description: 'Who is told of limits, errors and what ends' },
  { name: 'Activity', description: 'What happens, as it happens' },
  { name: 'SCIM', description: 'Groups of an identity provider, and their workspaces' },
  { name: 'SCIM provisioning', description: 'What an identity provider calls' },
  { name: 'Site', description: 'Health, metrics and this description' },
]
