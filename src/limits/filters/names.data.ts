/**
 * Given names common in the United States, Britain, Germany, France, Spain and Italy, few of which
 * are words or months. Lower case.
 */
export const GIVEN_NAMES = new Set(
  `aaron abigail adam adrian ahmed aisha alan albert alejandro alessandro alex alexander alexandra
alfred ali alice alicia allison amanda amelia amy ana andre andrea andreas andrew angela anita
anja ann anna anne annette anthony antoine antonio arthur astrid barbara beatrice ben benjamin
bernd bernard bertrand beth bettina bianca bob brandon brenda brian bruno camille carl carla
carlos carmen carol caroline catherine cathy celine charles charlotte chiara chloe chris christian
christina christine christophe christopher claire clara claudia claus colin craig cristina cynthia
daniel daniela david deborah denis denise dennis diana diego dieter dirk dmitri dominik donald
donna dorothy doris douglas edward eleanor elena eli elias elisabeth elizabeth ella elsa emily
emma emmanuel enrique eric erik ernst esther eva evelyn fabian fatima felix fernando florian
francesca francesco francis francisco frank franz frederic friedrich fritz gabriel gabriele gary
george georg gerald gerhard gianluca giovanni giulia giuseppe gisela gloria greg gregory guillaume
gunter gustav hannah hans harold harry heather heidi heike heinrich helen helena helga helmut
henri henry herbert hiroshi holger horst howard hugo ian ibrahim ines ingrid irene isabel isabella
ivan jack jacob jacques jakob james jan jana jane janet janice jason javier jean jeff jeffrey
jennifer jens jeremy jerry jessica jim joan joachim joe joel johan johann johannes john jonas
jonathan jorge jose joseph josh joshua joyce juan judith judy julia julian julie jurgen justin
karen karin karl kate katharina katherine kathleen kathy katja katrin keith kelly ken kenneth
kevin kim klaus kristin kurt kyle lars laura lauren laurent lea lena leo leon leonard leonardo
linda lisa lorenzo louis louise luca lucas lucia lucy luis luisa lukas luke lutz lydia manfred
manuel marcel marco marcus margaret maria marianne marie marina mario mark markus marta martha
martin martina mary matteo matthew matthias maurice max maximilian megan melanie melissa michael
michel michelle miguel mike miriam mohamed mohammed monica monika moritz nadia nancy natalie
natasha nathan nicholas nicolas nicole nikolai nils nina noah nora norbert olaf oliver olivia
olivier omar oscar otto pablo pamela paolo pascal patricia patrick paul paula pauline pedro peter
petra philip philipp philippe pierre rachel rafael rainer ralf ralph ramon raymond rebecca
reinhard renate rene ricardo richard rita robert roberto roger roland ronald rosa rudolf russell
ruth ryan sabine sabrina samantha samuel sandra sara sarah scott sean sebastian sergio sharon
shirley silvia simon simone sofia sophia sophie stefan stefanie stella stephan stephanie stephen
steve steven susan susanne sven sylvia tamara tania tanja teresa theo theodor theresa thierry
thomas tim timothy tina tobias todd tom torsten tyler ulrich ulrike ursula ute uwe valentina
valerie vanessa vera veronica veronika victor victoria vincent virginia vladimir walter wendy
werner wilhelm william wolfgang yasmin yusuf yves yvonne zoe`.split(/\s+/),
)

/** Titles before a name, lower case and without their full stop. */
export const TITLES = new Set(
  `mr mrs ms miss mx dr prof professor sir madam herr frau monsieur madame mme mlle m sr sra señor
señora signor signora`.split(/\s+/),
)

/** Capitalised words that follow a given name or a title and are no family names. */
export const NO_NAMES = new Set(
  `january february march april may june july august september october november december monday
tuesday wednesday thursday friday saturday sunday street avenue road university college school
hospital church airport station bridge park river lake mountain island city county state award
prize museum foundation institute company corporation inc ltd gmbh and or the of for in on at to
from with is was has had will would could should said says asked told thinks inside outside
president minister chairman who bank code api`.split(/\s+/),
)
