/** @jsxImportSource preact */
import { ask } from './api.ts'
import { type Column, Find, saveCsv, Table, useLoaded, Waiting } from './parts.tsx'
import { link, matchWords, type Place, setQuery } from './route.ts'
import { formatCount } from './text.ts'

interface Model {
  id: string
  name: string
  description: string
  context_length: number | null
  architecture: { input_modalities: string[]; output_modalities: string[] }
  pricing: Record<string, string>
  supported_parameters: string[]
}

/** How many are shown: to find one, one searches. */
const SHOWN = 200

const perMillion = (price: string | undefined): string => {
  const amount = Number(price)
  if (price === undefined || !(amount >= 0)) return '—'
  return amount === 0 ? 'free' : `$${Number((amount * 1e6).toPrecision(6))}`
}

const COLUMNS: Column<Model>[] = [
  {
    title: 'Model',
    show: model => <a href={link(['playground'], { model: model.id })}>{model.id}</a>,
    text: model => model.id,
  },
  { title: 'Name', show: model => model.name },
  { title: 'Context', isNumber: true, show: model => formatCount(model.context_length) },
  { title: 'Reads', show: model => model.architecture.input_modalities.join(', ') },
  { title: 'In, per million', isNumber: true, show: model => perMillion(model.pricing.prompt) },
  {
    title: 'Out, per million',
    isNumber: true,
    show: model => perMillion(model.pricing.completion),
  },
]

/** The models that can be called here, with their prices. */
export function Models({ place }: { place: Place }) {
  const loaded = useLoaded(() => ask<{ data: Model[] }>('GET', '/models'), [])
  const matches = matchWords(place)
  const reads = place.query.get('reads') ?? ''
  const needs = place.query.get('needs') ?? ''
  const found = (loaded.value?.data ?? []).filter(
    model =>
      matches(`${model.id} ${model.name}`) &&
      (reads === '' || model.architecture.input_modalities.includes(reads)) &&
      (needs === '' || model.supported_parameters.includes(needs)),
  )
  return (
    <>
      <h1>Models</h1>
      <div class="tools">
        <Find place={place} />
        <Filter
          place={place}
          name="reads"
          label="Reads"
          choices={['image', 'file', 'audio', 'video']}
        />
        <Filter
          place={place}
          name="needs"
          label="Takes"
          choices={['tools', 'structured_outputs', 'reasoning', 'web_search_options']}
        />
        <button type="button" onClick={() => saveCsv('models', COLUMNS, found)}>
          Save as CSV
        </button>
      </div>
      {loaded.value ? (
        <>
          <p class="quiet" role="status">
            {found.length} of {loaded.value.data.length}
          </p>
          <Table
            caption="Models"
            columns={COLUMNS}
            rows={found.slice(0, SHOWN)}
            empty="None matches."
          />
        </>
      ) : (
        <Waiting {...loaded} />
      )}
    </>
  )
}

function Filter({
  place,
  name,
  label,
  choices,
}: {
  place: Place
  name: string
  label: string
  choices: string[]
}) {
  return (
    <label>
      {label}{' '}
      <select
        value={place.query.get(name) ?? ''}
        onChange={event => setQuery(place, { [name]: event.currentTarget.value })}
      >
        <option value="">anything</option>
        {choices.map(choice => (
          <option key={choice} value={choice}>
            {choice.replaceAll('_', ' ')}
          </option>
        ))}
      </select>
    </label>
  )
}
