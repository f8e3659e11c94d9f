import { languageOf } from '../../../../parts/highlight/languages';
import { ColouredLines } from '../../../../parts/highlight/source';
import { blocksOf, type Block, type Piece } from '../markdown';

export function Markdown({ text }: { text: string }) {
  return (
    <div class="markdown">
      {blocksOf(text).map((block, at) => (
        <One key={at} block={block} />
      ))}
    </div>
  );
}

/** Some lines of code with colours, for cells of notebooks and fences. */
export function Code({ text, language }: { text: string; language: string }) {
  return (
    <pre class="code-cell">
      <ColouredLines text={text} language={language} />
    </pre>
  );
}

function One({ block }: { block: Block }) {
  switch (block.kind) {
    case 'heading': {
      const Heading = `h${Math.min(6, block.level + 2)}` as 'h3';
      return (
        <Heading class={`markdown-h${block.level}`}>
          <Pieces of={block.pieces} />
        </Heading>
      );
    }
    case 'code':
      return <Code text={block.text} language={languageOf(`x.${block.language}`) || block.language} />;
    case 'item':
      return (
        <p class="markdown-item" style={{ '--depth': String(block.depth) }}>
          <span class="faint">{block.mark}</span> <Pieces of={block.pieces} />
        </p>
      );
    case 'quote':
      return (
        <blockquote>
          <Pieces of={block.pieces} />
        </blockquote>
      );
    case 'line':
      return <hr />;
    case 'table':
      return (
        <div class="scroll-x">
          <table class="plain-table markdown-table">
            <tbody>
              {block.rows.map((row, at) => (
                <tr key={at}>
                  {row.map((cell, place) => (
                    <td key={place}>
                      <Pieces of={cell} />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    default:
      return (
        <p>
          <Pieces of={block.pieces} />
        </p>
      );
  }
}

function Pieces({ of }: { of: readonly Piece[] }) {
  return (
    <>
      {of.map((piece, at) => {
        if (piece.kind === 'link')
          return (
            <a key={at} href={piece.to} target="_blank" rel="noopener noreferrer nofollow">
              {piece.text}
            </a>
          );
        if (piece.kind === 'text') return piece.text;
        const Tag = piece.kind;
        return <Tag key={at}>{piece.text}</Tag>;
      })}
    </>
  );
}
