/** Maps publishers to the authors under which the public service lists their models. */
const AUTHORS: Record<string, string> = {
  'deepseek-ai': 'deepseek',
  'zai-org': 'z-ai',
  zai: 'z-ai',
  spacexai: 'x-ai',
  bytedance: 'bytedance-seed',
  particle: 'particle-ai',
  minimaxai: 'minimax',
  meta: 'meta-llama',
  'meta-models': 'meta',
  mistral: 'mistralai',
  moonshot: 'moonshotai',
  xai: 'x-ai',
  xiaomimimo: 'xiaomi',
  'stepfun-ai': 'stepfun',
  alibaba: 'qwen',
  'ibm-granite': 'ibm-granite',
  'inclusion-ai': 'inclusionai',
  'prime-intellect': 'prime-intellect',
  primeintellect: 'prime-intellect',
}

/** The author of a model whose name has none, by the start of the name. */
const FAMILIES: [start: RegExp, author: string][] = [
  [/^(gpt|o1|o3|o4|chatgpt|text-embedding|whisper|tts|codex|computer-use)/, 'openai'],
  [/^claude/, 'anthropic'],
  [/^(gemini|gemma|text-embedding-00)/, 'google'],
  [/^(meta-)?llama/, 'meta-llama'],
  [/^muse/, 'meta'],
  [
    /^(mistral|mixtral|ministral|codestral|devstral|magistral|pixtral|voxtral|open-mistral|labs-)/,
    'mistralai',
  ],
  [/^(qwen|qwq)/, 'qwen'],
  [/^deepseek/, 'deepseek'],
  [/^(zai-)?glm/, 'z-ai'],
  [/^kimi/, 'moonshotai'],
  [/^minimax/, 'minimax'],
  [/^grok/, 'x-ai'],
  [/^bge/, 'baai'],
]

/** Names that no rule joins to their slug, as `author/name` in lower case. */
const EXCEPTIONS: Record<string, string> = {
  'openai/chat-latest': 'openai/gpt-chat-latest',
  'openai/gpt-5-chat-latest': 'openai/gpt-5-chat',
  'google/gemma-4-e2b': 'google/gemma-4-e2b-it',
  'meta-llama/llama-3.1-8b-instant': 'meta-llama/llama-3.1-8b-instruct',
  'meta-llama/llama-3.3-70b-versatile': 'meta-llama/llama-3.3-70b-instruct',
  'meta-llama/llama-3.3-70b-instruct-fp8-fast': 'meta-llama/llama-3.3-70b-instruct',
  'meta-llama/llama-3.1-70b-instruct-fp8-fast': 'meta-llama/llama-3.1-70b-instruct',
  'meta-llama/llama-3.1-8b-instruct-fp8-fast': 'meta-llama/llama-3.1-8b-instruct',
  'meta-llama/llama-4-maverick-17b-128e-instruct': 'meta-llama/llama-4-maverick',
  'meta-llama/llama-4-maverick-17b-instruct': 'meta-llama/llama-4-maverick',
  'meta-llama/llama4-maverick-17b-instruct': 'meta-llama/llama-4-maverick',
  'meta-llama/llama-4-scout-17b-16e-instruct': 'meta-llama/llama-4-scout',
  'meta-llama/llama4-scout-17b-instruct': 'meta-llama/llama-4-scout',
  'meta-llama/meta-llama-3.1-8b-instruct': 'meta-llama/llama-3.1-8b-instruct',
  'meta-llama/meta-llama-3.3-70b-instruct': 'meta-llama/llama-3.3-70b-instruct',
  'meta-llama/meta-llama-3_3-70b-instruct': 'meta-llama/llama-3.3-70b-instruct',
  'meta-llama/meta-llama-3-70b-instruct': 'meta-llama/llama-3-70b-instruct',
  'meta-llama/meta-llama-3-8b-instruct': 'meta-llama/llama-3-8b-instruct',
  'meta/muse-spark-open-816b-a42b': 'meta/muse-spark-open',
  'meta/muse-ember-1.0': 'meta/muse-ember',
  'meta/muse-wonder-1.0': 'meta/muse-wonder',
  'mistralai/mistral-medium-2505': 'mistralai/mistral-medium-3',
  'mistralai/mistral-medium-2508': 'mistralai/mistral-medium-3.1',
  'mistralai/mistral-medium-2604': 'mistralai/mistral-medium-3-5',
  'mistralai/mistral-small-2506': 'mistralai/mistral-small-3.2-24b-instruct',
  'mistralai/mistral-small-3.2-24b-instruct-2506': 'mistralai/mistral-small-3.2-24b-instruct',
  'mistralai/mistral-large-3-675b-instruct': 'mistralai/mistral-large-2512',
  'mistralai/mistral-large-4': 'mistralai/mistral-large-4-0',
  'mistralai/open-mistral-nemo': 'mistralai/mistral-nemo',
  'mistralai/mistral-nemo-instruct-2407': 'mistralai/mistral-nemo',
  'mistralai/ministral-3-14b-instruct': 'mistralai/ministral-14b-2512',
  'mistralai/ministral-3-8b-instruct': 'mistralai/ministral-8b-2512',
  'mistralai/ministral-3-3b-instruct': 'mistralai/ministral-3b-2512',
  'mistralai/devstral-2-123b': 'mistralai/devstral-2512',
  'mistralai/devstral-2-123b-instruct-2512': 'mistralai/devstral-2512',
  'mistralai/voxtral-small-2507': 'mistralai/voxtral-small-24b-2507',
  'deepseek/deepseek-v3': 'deepseek/deepseek-chat',
  'deepseek/v3': 'deepseek/deepseek-chat-v3.1',
  'deepseek/v3.2': 'deepseek/deepseek-v3.2',
  'deepseek/r1': 'deepseek/deepseek-r1',
  'deepseek/deepseek-v3-0324': 'deepseek/deepseek-chat-v3-0324',
  'deepseek/deepseek-v3.1': 'deepseek/deepseek-chat-v3.1',
  'deepseek/deepseek-flash': 'deepseek/deepseek-v4.1-flash',
  'z-ai/zai-glm-5-2': 'z-ai/glm-5.2',
  'z-ai/zai-glm-5-3': 'z-ai/glm-5.3',
  'z-ai/zai-glm-5-3-flash': 'z-ai/glm-5.3-flash',
  'qwen/qwen3-235b-a22b-instruct-2507': 'qwen/qwen3-235b-a22b-2507',
  'qwen/qwen3-coder-480b-a35b-instruct': 'qwen/qwen3-coder',
  'qwen/qwen3-coder-480b-a35b': 'qwen/qwen3-coder',
  'qwen/qwen3-coder-30b-a3b': 'qwen/qwen3-coder-30b-a3b-instruct',
  'qwen/qwen3-next-80b-a3b': 'qwen/qwen3-next-80b-a3b-instruct',
  'qwen/qwen3-vl-235b-a22b': 'qwen/qwen3-vl-235b-a22b-instruct',
  'moonshotai/kimi-k2-instruct': 'moonshotai/kimi-k2',
  'moonshotai/kimi-k2-instruct-0905': 'moonshotai/kimi-k2-0905',
  'moonshotai/kimi-k3.1': 'moonshotai/kimi-k3.1-pro',
  'nvidia/nemotron-3.5-lightning-30b-a3b': 'nvidia/nemotron-3.5-lightning',
  'nvidia/nemotron-3.5-super-vl-120b-a12b': 'nvidia/nemotron-3.5-super-vl',
  'nvidia/nemotron-super-3-120b': 'nvidia/nemotron-3-super-120b-a12b',
  'nvidia/nemotron-3-120b-a12b': 'nvidia/nemotron-3-super-120b-a12b',
  'nvidia/nemotron-nano-3-30b': 'nvidia/nemotron-3-nano-30b-a3b',
  'reflection/beam-1.0-501b-a23b': 'reflection/beam-1.0-501b-a23b',
  'cohere/command-r': 'cohere/command-r-08-2024',
  'cohere/command-r-plus': 'cohere/command-r-plus-08-2024',
  'cohere/command-r7b': 'cohere/command-r7b-12-2024',
}

/** The parts of a provider's own name for a model. */
export interface ProviderName {
  author: string
  name: string
  /** The quantization in the name. */
  quantization?: string
}

const REGION = /^(us|eu|apac|au|ca|global|in|jp|us-gov|regional)\.(?=[a-z]+\.)/

/**
 * Parses a provider's own name. `home` is the author where the provider serves only its own models.
 * Undefined where the author is not known.
 */
export function parseProviderName(own: string, home: string | undefined): ProviderName | undefined {
  let name = own
    .replace(/^accounts\/[^/]+\/(models|routers)\//, '')
    .replace(/^@cf\//, '')
    .replace(REGION, '')
    .replace(/(-v?\d+)?:\d+$/, '')
    .toLowerCase()
  if (own.startsWith('accounts/')) name = name.replace(/(\d)p(\d)/g, '$1.$2')
  const [first = '', ...rest] = name.includes('/')
    ? name.split('/')
    : /^[a-z]+\.[a-z]/.test(name)
      ? splitDot(name)
      : ['', name]
  const bare = rest.join('-')
  // Meta lists the models of its own service apart from the Llamas that others serve.
  const author =
    first === ''
      ? (home ?? findFamilyAuthor(bare))
      : bare.startsWith('muse')
        ? 'meta'
        : (AUTHORS[first] ?? first)
  if (!author) return undefined
  const quantization = /-(fp4|fp8|bf16|fp16|nvfp4|mxfp4|int4|int8)$/.exec(bare)?.[1]
  return { author, name: bare, ...(quantization ? { quantization } : {}) }
}

// Bedrock: `anthropic.claude-…`, with a dot that is not part of a version.
const splitDot = (name: string): [string, string] => [
  name.slice(0, name.indexOf('.')),
  name.slice(name.indexOf('.') + 1),
]

const findFamilyAuthor = (name: string) => FAMILIES.find(([start]) => start.test(name))?.[1]

/** Holds every known slug, and finds the slug of a provider's name. */
export class Slugs {
  readonly #byKey = new Map<string, string | null>()
  readonly #known = new Set<string>()

  /**
   * Adds a slug of the public service. One that normalizes like another of its author is found by
   * its exact name only.
   */
  add(slug: string): void {
    if (this.#known.has(slug)) return
    this.#known.add(slug)
    const key = normalizeSlug(slug)
    this.#byKey.set(key, this.#byKey.has(key) ? null : slug)
  }

  has(slug: string): boolean {
    return this.#known.has(slug)
  }

  /** Finds the slug that a provider's name belongs to. Undefined where none is known. */
  find({ author, name, quantization }: ProviderName): string | undefined {
    for (const candidate of listCandidateNames(name, author, quantization)) {
      const full = `${author}/${candidate}`
      const found =
        EXCEPTIONS[full] ?? (this.#known.has(full) ? full : this.#byKey.get(normalizeSlug(full)))
      if (found) return found
    }
    return undefined
  }
}

// From the exact name to what it may mean: without its date, its weights or its author's name, with
// and without `instruct`.
function listCandidateNames(
  name: string,
  author: string,
  quantization: string | undefined,
): string[] {
  const plain = quantization ? name.slice(0, -quantization.length - 1) : name
  const undated = plain.replace(/-(\d{8}|\d{4}-\d{2}-\d{2})$/, '').replace(/-v1$/, '')
  const own = undated.startsWith(`${author}-`) ? undated.slice(author.length + 1) : undated
  const bases = [...new Set([name, plain, undated, own])]
  return [
    ...bases,
    ...bases.flatMap(base => [`${base}-instruct`, `${base}-it`, `${base}-v1`]),
    ...bases.map(base => base.replace(/-(instruct|it)$/, '')),
  ]
}

const normalizeSlug = (slug: string): string => {
  const at = slug.indexOf('/')
  return slug.slice(0, at + 1) + slug.slice(at + 1).replace(/[-._]/g, '')
}

/** Creates the slug of a model that the public service does not list. */
export const createSlug = ({ author, name }: ProviderName): string =>
  `${author}/${name.replace(/_/g, '-')}`

/** The form of a slug. */
export const SLUG = /^[a-z0-9][a-z0-9-]*\/[a-z0-9][a-z0-9._-]*(:free)?$/
