import { brave } from './brave.ts'
import type { SearchEngine } from './engine.ts'
import { exa } from './exa.ts'
import { firecrawl } from './firecrawl.ts'
import { parallel } from './parallel.ts'
import { perplexity } from './perplexity.ts'
import { searxng } from './searxng.ts'
import { tavily } from './tavily.ts'

/** Every search engine that the gateway can ask. `config/tools.ts` has their names. */
export const ENGINES: SearchEngine[] = [
  ...[brave, exa, firecrawl, parallel, perplexity, searxng, tavily],
]
