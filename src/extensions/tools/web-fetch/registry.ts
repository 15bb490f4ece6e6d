import type { FetchEngine } from './engine.ts'
import { exa } from './exa.ts'
import { firecrawl } from './firecrawl.ts'
import { parallel } from './parallel.ts'

/** Every service that can read pages. `config/tools.ts` has their names. */
export const FETCH_ENGINES: FetchEngine[] = [exa, firecrawl, parallel]
