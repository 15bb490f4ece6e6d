import { type Extension, NEEDS } from '../engine/run.ts'
import { startBroadcast } from './broadcast.ts'
import { filterAnswer, filterRequest, filterRun } from './filters.ts'
import { inlineMedia } from './media.ts'
import { chooser, filterByPlugins } from './plugin.ts'
import { enrichRun, preparePlugins, reviewRun } from './prepare.ts'
import { offerTools } from './server-tool/offer.ts'
import { runApproved } from './server-tool/uses.ts'
import { chainSteps } from './steps.ts'
import { resolveStoredFiles } from './stored-files.ts'
import { checkCallback } from './videos/callback.ts'
import { handOver } from './videos/start.ts'

const { files, plugins, defaults, names, search, tools, filters, job, media, subscribers } = NEEDS

/** Every extension, in the order in which it is attached and opened. */
export const EXTENSIONS: readonly Extension[] = [
  // Where a job is to be told of is checked: 400. The job goes on with the work: 503.
  { name: 'videos', when: job, open: checkCallback, close: handOver },
  // Stored files are put in place of their ids: 400.
  { name: 'stored files', when: files, open: resolveStoredFiles },
  // Plugins read what they have to for the call, and have the answer before filters: 400.
  {
    name: 'plugins',
    when: plugins | defaults | names | search | files,
    open: preparePlugins,
    choose: chooser,
    read: filterByPlugins,
  },
  // The gateway's own tools are shown to the model: 400. Approved uses run: 400, 402, 403.
  { name: 'tools', when: tools, open: offerTools, begin: runApproved },
  // Turns follow the first: of tools, and as plugins ask for.
  { name: 'turns', when: tools | plugins, next: chainSteps },
  // Texts are redacted, refused or noted: 403.
  { name: 'filters', when: filters, open: filterRun, send: filterRequest, read: filterAnswer },
  // Plugins may look at what is left: 403.
  { name: 'review', when: plugins, open: reviewRun },
  // Plugins may ask others for what the call is to contain, and filters read it: 402, 403.
  { name: 'enrichment', when: plugins, open: enrichRun },
  // What an endpoint does not fetch itself is put in place of its URL: 400.
  { name: 'media', when: media, fit: inlineMedia },
  // Destinations are told of the call.
  { name: 'broadcast', when: subscribers, watch: startBroadcast },
]
