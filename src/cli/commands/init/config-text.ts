import { SCHEMA_LINE } from '../../../config/editor-schema.ts'
import type { ProviderConfig } from '../../../config.ts'

interface FirstConfig {
  slug: string
  settings: ProviderConfig
  /** A model for calls that name none. */
  model: string | null
}

/** Renders a first config with comments. Its secrets are names of variables or files. */
export const renderConfig = ({ slug, settings, model }: FirstConfig): string =>
  render(
    `${slug}:\n${renderMapping(settings, '    ')}
  # Any other provider that is known by name needs its credential alone:
  # ${slug === 'anthropic' ? OPENAI : ANTHROPIC}`,
    model === null ? '# default_model: sandbox/echo' : `default_model: ${JSON.stringify(model)}`,
  )

/** Renders a config of comments: every setting has its default. */
export const renderEmptyConfig = (): string =>
  render(
    `# A provider that is known by name needs its credential alone:
  # ${OPENAI}
  # ${ANTHROPIC}`,
    '# default_model: sandbox/echo',
  )

const OPENAI = `openai: { api_key: "\${OPENAI_API_KEY}" }`
const ANTHROPIC = `anthropic: { api_key: "\${ANTHROPIC_API_KEY}" }`

// Each commented setting is one line, so that what is left is valid whichever of them are used.
const render = (provider: string, model: string): string =>
  `${SCHEMA_LINE}
# The configuration of this gateway. A running server applies a change within two seconds.
# gateway config check finds mistakes; gateway config schema describes every setting.

providers:
  # A name in \${…} is a variable of the environment; after file: it is a file beside this one,
  # which holds the secret and is readable by its owner only.
  ${provider}

# The model of calls that name none. gateway models list shows them all.
${model}

# To be reached from other machines; put TLS in front of it.
# server: { host: 0.0.0.0, port: 8080 }

# What one API key may ask for.
# limits: { requests_per_minute: 60 }
`

const renderMapping = (settings: object, indent: string): string =>
  Object.entries(settings)
    .map(([name, value]) => `${indent}${name}:${renderValue(value, indent)}`)
    .join('\n')

const renderValue = (value: unknown, indent: string): string =>
  typeof value === 'object' && value !== null
    ? `\n${renderMapping(value, `${indent}  `)}`
    : ` ${JSON.stringify(value)}`
